"""The fleet's file: what it may say, what is refused, and which command lines come of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hookbus_interceptors.configuration import ConfigurationInvalid
from hookbus_interceptors.fleet.plan import FleetPlan, InterceptorPlan, read_fleet, worker_command
from hookbus_interceptors.loading import configured, load
from tests.worker.processes import ROOT


def fleet(**interceptors: Any) -> FleetPlan:
    return FleetPlan.model_validate({"interceptors": interceptors})


@pytest.mark.parametrize("name", ["Redact", "x-redact", "red act", "red.act", "", "ünïcode"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="an interceptor is named with"):
        fleet(**{name: {"target": "a:b"}})


def test_two_names_that_are_the_same_namespace_are_refused() -> None:
    with pytest.raises(ValidationError, match="same extension namespace"):
        fleet(**{"rate-limit": {"target": "a:b"}, "rate_limit": {"target": "a:b"}})
    assert fleet(**{"rate-limit": {"target": "a:b"}, "ratelimit": {"target": "a:b"}})


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"target": "no colon"},
        {"target": "a:b", "workers": 0},
        {"target": "a:b", "concurrency": 0},
        {"target": "a:b", "points": ["before_tool_call"]},
        {"target": "a:b", "tool": 1},
        {"target": "a:b", "config": "a.toml", "configuration": {}},
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        fleet(redact=table)


def test_a_fleet_of_nobody_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 1"):
        fleet()


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "FileNotFoundError"), ("[", "not TOML"), ("[interceptors.a]\ntarget = 7", "interceptors.a.target")],
)
def test_a_file_that_is_no_fleet_is_refused_with_the_place(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "fleet.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationInvalid, match=why):
        read_fleet(path)


def test_files_and_interpreters_are_looked_for_beside_the_fleets_own_file(tmp_path: Path) -> None:
    plan = InterceptorPlan(
        target="a:b",
        points=("input", "output"),  # type: ignore[arg-type]  # as a file has them
        config=Path("redact.toml"),
        table="one.two",
        python=Path("../policy/bin/python"),
        settings=Path("worker.toml"),
    )
    command = worker_command(tmp_path / "fleet.toml", "redact", plan, url="nats://here:1", tenant="acme")
    assert command[0] == str(tmp_path.parent / "policy/bin/python")
    assert command[1:] == (
        "-m hookbus worker run a:b --name redact --concurrency 64 --point input --point output "
        f"--interceptor-config {tmp_path}/redact.toml --table one.two "
        f"--url nats://here:1 --tenant acme --config {tmp_path}/worker.toml"
    ).split(" ")


def test_a_configuration_in_the_fleets_own_file_is_its_table(tmp_path: Path) -> None:
    plan = InterceptorPlan(target="a:b", configuration={"version": "1"})
    path = tmp_path / "fleet.toml"
    command = worker_command(path, "redact", plan, url=None, tenant=None)
    assert command[0] == sys.executable
    assert command[-4:] == ["--interceptor-config", str(path), "--table", "interceptors.redact.configuration"]


SHIPPED = ROOT / "deploy" / "fleet.toml"


@pytest.mark.parametrize("name", read_fleet(SHIPPED).interceptors)
def test_every_interceptor_of_the_shipped_fleet_can_be_made(name: str) -> None:
    plan = read_fleet(SHIPPED).interceptors[name]
    if plan.python is not None:
        pytest.skip("it is made in an environment of its own")
    interceptor = load(plan.target)
    if plan.configuration is not None:
        interceptor = configured(interceptor, SHIPPED, f"interceptors.{name}.configuration")
    elif plan.config is not None:
        interceptor = configured(interceptor, SHIPPED.parent / plan.config, plan.table)
    assert callable(getattr(interceptor, "intercept", interceptor))
