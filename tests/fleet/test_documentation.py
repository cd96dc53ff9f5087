"""The file of docs/fleet.md is a fleet, and the page names every setting that there is."""

from __future__ import annotations

import re
import tomllib

import pytest

from hookbus_interceptors.fleet import process
from hookbus_interceptors.fleet.plan import FleetPlan, InterceptorPlan, ServerPlan
from tests.worker.processes import ROOT

PAGE = (ROOT / "docs" / "fleet.md").read_text("utf-8")


def test_the_file_of_the_page_is_a_fleet() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert FleetPlan.model_validate(tomllib.loads(text)).interceptors["refuse-tools"].workers == 2


@pytest.mark.parametrize("model", [ServerPlan, InterceptorPlan])
def test_the_page_has_a_row_for_every_setting(model: type[ServerPlan | InterceptorPlan]) -> None:
    rows = [line.partition("|")[2].partition("|")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    assert set(model.model_fields) <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_times_of_the_page_are_those_of_the_code() -> None:
    assert f"started again after {process.FIRST_PAUSE_S:g} s" in PAGE
    assert f"up to {process.LONGEST_PAUSE_S:g} s; {process.STEADY_S:g} s of service" in PAGE
    assert f"has not drained after {process.DRAIN_S:g} s" in PAGE
