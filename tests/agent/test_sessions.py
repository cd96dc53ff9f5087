"""One session per run, one spanning many, and agents inside agents."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionPoint, Verdict

from hookbus_client.agent import Agent, PointRepeated, SessionMisused
from hookbus_client.agent.emissions import Emissions

from .scripted import Rules, ScriptedModel, agent, calls, emitter, says

pytestmark = pytest.mark.anyio


async def test_a_session_spans_many_runs_in_one_bracket_with_one_numbering() -> None:
    rules, model = Rules(), ScriptedModel(says("One."), says("Two."))
    async with agent(model, rules).session() as session:
        await session.run("First")
        result = await session.run("Second")
    assert rules.points.count("agent_startup") == rules.points.count("agent_shutdown") == 1
    assert rules.points.count("input") == rules.points.count("output") == 2
    assert [context["sequence"] for context in rules.seen] == list(range(len(rules.seen)))
    assert [message["content"] for message in model.asked[1]] == ["First", "One.", "Second"]
    assert [record.interception_point.value for record in result.records] == [
        "input",
        "pre_model_call",
        "post_model_call",
        "output",
    ]
    assert [context["session"].get("turn") for context in rules.at("pre_model_call")] == [1, 2]


async def test_a_session_survives_a_denied_run() -> None:
    rules = Rules(input=lambda c: Verdict.deny(reason="no") if "bad" in c["input"]["content"] else Verdict.allow())
    model = ScriptedModel(says("Fine."))
    async with agent(model, rules).session() as session:
        with pytest.raises(InterceptionBlocked):
            await session.run("bad")
        assert (await session.run("good")).output == "Fine."
    assert [message["content"] for message in model.asked[0]] == ["good"]
    assert rules.seen[-1]["summary"] == {"reason": "completed"}


async def test_an_exception_that_leaves_the_block_closes_the_session_with_an_error() -> None:
    rules = Rules()
    with pytest.raises(LookupError):
        async with agent(ScriptedModel(), rules).session():
            raise LookupError
    assert rules.points == ["agent_startup", "agent_shutdown"]
    assert rules.seen[-1]["summary"] == {"reason": "error"}


async def test_a_denied_startup_leaves_a_session_that_never_opened() -> None:
    rules = Rules(agent_startup=Verdict.deny(reason="closed"))
    session = agent(ScriptedModel(), rules).session()
    with pytest.raises(InterceptionBlocked):
        await session.__aenter__()
    with pytest.raises(SessionMisused):
        await session.run("x")
    assert rules.points == ["agent_startup", "agent_shutdown"]


async def test_a_session_runs_only_inside_its_bracket_and_is_entered_once() -> None:
    session = agent(ScriptedModel(says("Hi.")), Rules()).session()
    with pytest.raises(SessionMisused, match="not open"):
        await session.run("x")
    async with session:
        await session.run("x")
    with pytest.raises(SessionMisused, match="not open"):
        await session.run("x")
    with pytest.raises(SessionMisused, match="agent_startup was already emitted"):
        await session.__aenter__()


async def test_a_point_is_emitted_once_for_one_call() -> None:
    rules = Rules()
    builder = AgentContextBuilder(agent_id="desk", framework="hookbus", session_id="s")
    emissions = Emissions(emitter(rules), builder, ())
    call = {"call_id": "c-1", "name": "f", "args": {}}
    await emissions.emit(InterceptionPoint.PRE_TOOL_CALL, "response", "c-1", **call)
    with pytest.raises(PointRepeated, match="pre_tool_call was already emitted"):
        await emissions.emit(InterceptionPoint.PRE_TOOL_CALL, "response", "c-1", **call)
    await emissions.emit(InterceptionPoint.PRE_TOOL_CALL, "another response", "c-1", **call)
    assert rules.points == ["pre_tool_call"] * 2


async def test_runs_of_one_session_follow_one_another() -> None:
    errors: list[SessionMisused] = []

    async def again() -> str:
        try:
            await session.run("inside")
        except SessionMisused as error:
            errors.append(error)
        return "ok"

    model = ScriptedModel(calls(("again", {})), says("done"))
    async with agent(model, Rules(), tools=[again]).session() as session:
        await session.run("outside")
    assert "in progress" in str(errors[0])


async def test_a_session_id_is_live_once_on_one_emitter() -> None:
    desk = agent(ScriptedModel(), Rules())
    async with desk.session(session_id="s-1"):
        with pytest.raises(SessionMisused, match="live on this emitter"):
            await desk.session(session_id="s-1").__aenter__()
        async with desk.session(session_id="s-2"):
            pass
    async with desk.session(session_id="s-1"):
        pass


async def test_a_nested_agent_has_its_own_bracket_inside_the_call_that_asked_it() -> None:
    rules = Rules()
    shared = emitter(rules)
    inner = Agent(ScriptedModel(says("Train 7.")), shared, agent_id="finder")
    model = ScriptedModel(calls(("finder", {"input": "To Mar del Plata"})), says("Take train 7."))
    outer = Agent(model, shared, agent_id="desk", tools=[inner.as_tool(description="Find trains.")])

    result = await outer.run("Book")

    assert result.output == "Take train 7."
    assert model.asked[1][-1]["content"] == "Train 7."
    inside = [context for context in rules.seen if context["agent"]["id"] == "finder"]
    assert [context["interception_point"] for context in inside] == [
        "agent_startup",
        "input",
        "pre_model_call",
        "post_model_call",
        "output",
        "agent_shutdown",
    ]
    assert [context["sequence"] for context in inside] == list(range(6))
    assert {context["session"]["id"] for context in inside} != {result.session_id}
    points = [(c["agent"]["id"], c["interception_point"]) for c in rules.seen]
    assert points.index(("desk", "pre_tool_call")) < points.index(("finder", "agent_startup"))
    assert points.index(("finder", "agent_shutdown")) < points.index(("desk", "post_tool_call"))
    assert all(record.session_id == result.session_id for record in result.records)


async def test_a_deny_inside_a_nested_agent_is_an_error_result_outside() -> None:
    def only_inside(context: Any) -> Verdict:
        inside = context["agent"]["id"] == "finder"
        return Verdict.deny(reason="inner_rule") if inside else Verdict.allow()

    rules = Rules(output=only_inside)
    shared = emitter(rules)
    inner = Agent(ScriptedModel(says("SECRET")), shared, agent_id="finder")
    model = ScriptedModel(calls(("finder", {"input": "go"})), says("done"))
    result = await Agent(model, shared, agent_id="desk", tools=[inner.as_tool()]).run("Book")
    assert result.output == "done"
    assert "inner_rule" in model.asked[1][-1]["content"]
    assert "SECRET" not in str(model.asked)
    shutdowns = [(c["agent"]["id"], c["summary"]["reason"]) for c in rules.at("agent_shutdown")]
    assert shutdowns == [("finder", "error"), ("desk", "completed")]
