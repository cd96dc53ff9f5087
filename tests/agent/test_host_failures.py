"""What no context can hold, and what no action can consume, fails closed (§6.3)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import InterceptionBlocked

from hookbus_client.agent import Agent, ToolCall

from .scripted import Opaque, Rules, ScriptedModel, agent, calls, emitter, says, sdk_emitter, transform

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("make", [emitter, sdk_emitter])
async def test_arguments_without_a_json_form_are_recorded_and_fail_closed(make: Any) -> None:
    emitting = make(Rules())
    model = ScriptedModel(calls(ToolCall("c-1", "f", {"x": Opaque()})))
    with pytest.raises(InterceptionBlocked, match="host_error:context_invalid") as blocked:
        await Agent(model, emitting, agent_id="desk").run("Go")
    record = blocked.value.result
    assert (record.interception_point.value, record.verdict.message) == ("post_model_call", "Opaque")
    assert record.sequence == 3
    assert [each.sequence for each in emitting.results] == list(range(5))
    assert "SECRET" not in str(blocked.value)


async def test_a_result_without_a_json_form_is_recorded_and_withheld() -> None:
    def f() -> Any:
        return Opaque()

    rules = Rules()
    emitting = emitter(rules)
    model = ScriptedModel(calls(("f", {})), says("done"))
    result = await Agent(model, emitting, agent_id="desk", tools=[f]).run("Go")
    read = model.asked[1][-1]["content"]
    assert "host_error:context_invalid" in read
    assert "SECRET" not in read
    assert "post_tool_call" not in rules.points
    assert [record.sequence for record in result.records] == list(range(10))


async def test_a_result_without_a_json_form_follows_the_posture() -> None:
    def f() -> Any:
        return Opaque()

    with pytest.raises(InterceptionBlocked, match="post_tool_call"):
        await agent(ScriptedModel(calls(("f", {}))), Rules(), tools=[f], posture="terminate").run("Go")


@pytest.mark.parametrize("make", [emitter, sdk_emitter])
@pytest.mark.parametrize("value", [float("nan"), 2**60, "\ud800"])
async def test_a_value_outside_the_domain_never_reaches_a_tool(make: Any, value: Any) -> None:
    ran: list[Any] = []

    def f(x: Any) -> None:
        ran.append(x)

    model = ScriptedModel(calls(("f", {"x": value})))
    with pytest.raises(InterceptionBlocked, match="host_error:context_invalid"):
        await Agent(model, make(Rules()), agent_id="desk", tools=[f]).run("Go")
    assert ran == []


@pytest.mark.parametrize(
    ("point", "reached"),
    [("input", 0), ("pre_model_call", 0), ("post_model_call", 1), ("output", 1)],
)
async def test_a_transform_into_something_unusable_fails_closed(point: str, reached: int) -> None:
    model = ScriptedModel(says("SECRET"))
    desk = agent(model, Rules(**{point: transform("$target", "rubbish")}))
    with pytest.raises(InterceptionBlocked, match="host_error:context_invalid") as blocked:
        await desk.run("Go")
    assert blocked.value.interception_point.value == point
    assert len(model.asked) == reached


async def test_arguments_transformed_into_something_unusable_never_reach_the_tool() -> None:
    ran: list[Any] = []

    async def f(x: Any) -> None:
        ran.append(x)

    model = ScriptedModel(calls(("f", {"x": 1})), says("done"))
    await agent(model, Rules(pre_tool_call=transform("$target", [1])), tools=[f]).run("Go")
    assert ran == []
    assert "host_error:context_invalid" in model.asked[1][-1]["content"]


@pytest.mark.parametrize(
    "made",
    [
        [{"id": "a", "name": "f", "args": {}}, {"id": "a", "name": "f", "args": {}}],
        [{"id": "", "name": "f", "args": {}}],
        [{"id": "a", "args": {}}],
        [{"id": "a", "name": "f", "args": "x"}],
        ["f"],
        None,
    ],
)
async def test_tool_calls_transformed_into_something_ambiguous_never_run(made: Any) -> None:
    ran: list[int] = []

    async def f() -> None:
        ran.append(1)

    rules = Rules(post_model_call=transform("$target.tool_calls", made))
    with pytest.raises(InterceptionBlocked, match="host_error:context_invalid"):
        await agent(ScriptedModel(calls(("f", {}))), rules, tools=[f]).run("Go")
    assert ran == []
