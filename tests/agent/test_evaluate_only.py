"""Evaluate-only proceeds always, untransformed (§8)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import EnforcementMode, Verdict

from hookbus_client.agent import Agent

from .scripted import Opaque, Rules, ScriptedModel, calls, emitter, says, sdk_emitter, transform

pytestmark = pytest.mark.anyio

POINTS = [
    "agent_startup",
    "input",
    "pre_model_call",
    "post_model_call",
    "pre_tool_call",
    "post_tool_call",
    "output",
    "agent_shutdown",
]


@pytest.mark.parametrize("make", [emitter, sdk_emitter])
@pytest.mark.parametrize(
    "verdict", [Verdict.deny(reason="no"), transform("$target", "X"), transform("$target.content", "X")]
)
async def test_evaluate_only_does_everything_as_if_nobody_had_asked(make: Any, verdict: Any) -> None:
    booked: list[str] = []

    def book(seat: str) -> str:
        booked.append(seat)
        return "booked"

    emitting = make(Rules(**dict.fromkeys(POINTS, verdict)), mode=EnforcementMode.EVALUATE_ONLY)
    model = ScriptedModel(calls(("book", {"seat": "12A"})), says("done"))
    result = await Agent(model, emitting, agent_id="desk", tools=[book]).run("Go")
    assert (result.output, booked) == ("done", ["12A"])
    assert [message["content"] for message in model.asked[1]] == ["Go", None, "booked"]


async def test_evaluate_only_records_a_result_without_a_json_form_and_goes_on() -> None:
    def f() -> Any:
        return Opaque()

    emitting = emitter(Rules(), mode=EnforcementMode.EVALUATE_ONLY)
    model = ScriptedModel(calls(("f", {})), says("done"))
    result = await Agent(model, emitting, agent_id="desk", tools=[f]).run("Go")
    assert result.output == "done"
    assert "Opaque" in model.asked[1][-1]["content"]
    assert "host_error:context_invalid" in [record.verdict.reason for record in result.records]
