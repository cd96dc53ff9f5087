"""The code of docs/authoring.md runs as it stands, and its shipped module is the one that ships."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hookbus_interceptors.authoring import example
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.fleet.plan import FleetPlan
from tests.worker.processes import ROOT

PAGE = (ROOT / "docs" / "authoring.md").read_text("utf-8")
FUNCTION, TEST, MODULE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SETTINGS, FLEET = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_function_of_the_page_passes_the_test_of_the_page() -> None:
    names: dict[str, Any] = {}
    exec(FUNCTION + TEST, names)
    names["test_tables_are_not_dropped"]()
    assert TestClient(names["no_drops"]).pre_tool_call("select").permits


def test_the_module_of_the_page_is_the_one_that_ships() -> None:
    shipped = Path(example.__file__).read_text("utf-8")
    assert shipped.endswith(MODULE)


def test_the_settings_of_the_page_configure_it(tmp_path: Path) -> None:
    path = tmp_path / "refuse-tools.toml"
    path.write_text(SETTINGS)
    answer = TestClient(example.RefuseTools.from_config(path)).pre_tool_call("mcp__db__DROP_TABLE")
    assert answer.reason == "refuse-tools:refused"
    assert answer.policy_version is not None
    (shown,) = re.findall(r"`(2026-11\+[0-9a-f]{12})`", PAGE)
    assert answer.policy_version == shown


def test_the_table_of_the_page_is_a_fleet() -> None:
    plan = FleetPlan.model_validate(tomllib.loads(FLEET)).interceptors["refuse-tools"]
    example.RefusedTools.model_validate(plan.configuration)
