"""The eight points, in the standard's order, and what each deny stops (§3.1, §6)."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from agent_hooks import InterceptionBlocked, Verdict

from hookbus_client.agent import Agent, MaxTurnsExceeded, ModelFailed

from .scripted import Rules, ScriptedModel, agent, calls, emitter, says, sdk_emitter, transform

pytestmark = pytest.mark.anyio

DENY = Verdict.deny(reason="no")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("make", [emitter, sdk_emitter])
async def test_a_run_with_a_tool_emits_every_point_in_order_with_gapless_sequence_numbers(make: Any) -> None:
    rules = Rules()
    model = ScriptedModel(calls(("add", {"a": 2, "b": 2})), says("It is 4."))
    desk = Agent(model, make(rules), agent_id="desk", tools=[add])

    result = await desk.run("What is 2 + 2?")

    assert result.output == "It is 4."
    assert rules.points == [
        "agent_startup",
        "input",
        "pre_model_call",
        "post_model_call",
        "pre_tool_call",
        "post_tool_call",
        "pre_model_call",
        "post_model_call",
        "output",
        "agent_shutdown",
    ]
    assert [context["sequence"] for context in rules.seen] == list(range(10))
    assert {context["session"]["id"] for context in rules.seen} == {result.session_id}
    assert [record.sequence for record in result.records] == list(range(10))
    assert rules.seen[-1]["summary"] == {"reason": "completed"}


async def test_contexts_carry_what_the_standard_asks_for() -> None:
    rules = Rules()
    model = ScriptedModel(calls(("add", {"a": 2, "b": 2})), says("4"))
    await agent(model, rules, tools=[add], instructions="Be brief.").run("Sum?")

    assert rules.at("agent_startup")[0]["agent_init"] == {"tools_registered": ["add"]}
    assert rules.at("input")[0]["input"] == {"content": "Sum?", "role": "user"}
    first, second = rules.at("pre_model_call")
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert first["tools"][0]["name"] == "add"
    assert first["request_id"] == rules.at("post_model_call")[0]["request_id"] != second["request_id"]
    assert first["session"]["turn"] == 1
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "call-0", "content": "4"}
    assert rules.at("post_model_call")[0]["response"] == {
        "content": None,
        "tool_calls": [{"id": "call-0", "name": "add", "args": {"a": 2, "b": 2}}],
        "finish_reason": "tool_calls",
    }
    assert rules.at("post_tool_call")[0]["tool_result"]["value"] == 4
    assert rules.at("post_tool_call")[0]["tool_result"]["is_error"] is False
    assert rules.at("output")[0]["output"] == {"content": "4"}


@pytest.mark.parametrize(
    ("point", "then"),
    [
        ("agent_startup", ["agent_startup", "agent_shutdown"]),
        ("input", ["agent_startup", "input", "agent_shutdown"]),
        ("pre_model_call", ["agent_startup", "input", "pre_model_call", "agent_shutdown"]),
        ("post_model_call", ["agent_startup", "input", "pre_model_call", "post_model_call", "agent_shutdown"]),
        (
            "output",
            ["agent_startup", "input", "pre_model_call", "post_model_call", "output", "agent_shutdown"],
        ),
    ],
)
async def test_a_deny_ends_the_run_there_and_only_shutdown_follows(point: str, then: list[str]) -> None:
    rules = Rules(**{point: DENY})
    model = ScriptedModel(says("a secret"))

    with pytest.raises(InterceptionBlocked) as blocked:
        await agent(model, rules).run("Hello")

    assert blocked.value.interception_point.value == point
    assert rules.points == then
    assert rules.seen[-1]["summary"] == {"reason": "error"}
    assert len(model.asked) == (0 if point in ("agent_startup", "input", "pre_model_call") else 1)


async def test_a_deny_at_shutdown_changes_nothing() -> None:
    result = await agent(ScriptedModel(says("Hi.")), Rules(agent_shutdown=DENY)).run("Hello")
    assert result.output == "Hi."
    assert result.records[-1].verdict.reason == "no"


async def test_an_emitter_without_interceptors_denies_the_startup() -> None:
    with pytest.raises(InterceptionBlocked, match="host_error:no_interceptor"):
        await agent(ScriptedModel(says("Hi."))).run("Hello")


async def test_transforms_are_what_every_action_consumes() -> None:
    rules = Rules(
        input=transform("$target.content", "Book a train."),
        pre_model_call=lambda context: transform(
            "$target", [*context["messages"], {"role": "user", "content": "Politely."}]
        ),
        post_model_call=transform("$target.content", "Booked: RAW"),
        output=transform("$target.content", "Booked."),
    )
    model = ScriptedModel(says("raw"))
    result = await agent(model, rules).run("Book a plane.")

    assert [message["content"] for message in model.asked[0]] == ["Book a train.", "Politely."]
    assert rules.at("output")[0]["output"]["content"] == "Booked: RAW"
    assert result.output == "Booked."
    assert [message["content"] for message in result.messages] == ["Book a train.", "Booked."]


async def test_a_transform_may_take_a_tool_call_out_of_a_response() -> None:
    rules = Rules(
        post_model_call=transform("$target", {"content": "No.", "tool_calls": [], "finish_reason": "stop"})
    )
    ran: list[str] = []
    result = await agent(ScriptedModel(calls(("note", {}))), rules, tools=[lambda_named("note", ran)]).run("Go")
    assert (result.output, ran) == ("No.", [])


async def test_max_turns_says_so_and_closes_the_session_with_an_error() -> None:
    rules = Rules()
    model = ScriptedModel(*(calls(("add", {"a": 1, "b": 1})) for _ in range(3)))
    with pytest.raises(MaxTurnsExceeded, match="max_turns=2") as raised:
        await agent(model, rules, tools=[add], max_turns=2).run("Loop")
    assert raised.value.max_turns == 2
    assert len(model.asked) == 2
    assert rules.seen[-1]["summary"] == {"reason": "error"}


async def test_a_model_that_fails_has_no_post_model_call() -> None:
    class Failing(ScriptedModel):
        async def complete(self, messages: Any, tools: Any) -> Any:
            raise ModelFailed("RateLimitError")

    rules = Rules()
    with pytest.raises(ModelFailed, match="RateLimitError"):
        await agent(Failing(), rules).run("Hello")
    assert rules.points == ["agent_startup", "input", "pre_model_call", "agent_shutdown"]


async def test_a_cancelled_run_closes_its_session_as_cancelled() -> None:
    asked = anyio.Event()

    class Hanging(ScriptedModel):
        async def complete(self, messages: Any, tools: Any) -> Any:
            asked.set()
            await anyio.sleep_forever()

    rules = Rules()
    async with anyio.create_task_group() as group:
        group.start_soon(agent(Hanging(), rules).run, "Hello")
        await asked.wait()
        group.cancel_scope.cancel()
    assert rules.points[-1] == "agent_shutdown"
    assert rules.seen[-1]["summary"] == {"reason": "cancelled"}


async def test_a_task_cancelled_during_an_emission_closes_its_session_as_cancelled() -> None:
    asked = asyncio.Event()

    class Silent(Rules):
        async def intercept(self, context: Any) -> Any:
            verdict = await super().intercept(context)
            if context["interception_point"] == "pre_model_call":
                asked.set()
                await anyio.sleep_forever()
            return verdict

    rules = Silent()
    emitting = emitter(rules)
    running = asyncio.create_task(Agent(ScriptedModel(), emitting, agent_id="desk").run("Hello"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rules.points[-2:] == ["pre_model_call", "agent_shutdown"]
    assert rules.seen[-1]["summary"] == {"reason": "cancelled"}
    assert [record.proceeds for record in emitting.results] == [True, True, False, True]


async def test_without_an_emitter_nothing_is_intercepted_and_the_agent_does_the_same() -> None:
    model = ScriptedModel(calls(("add", {"a": 2, "b": 3})), says("5"))
    result = await Agent(model, agent_id="desk", tools=[add]).run("Sum?")
    assert (result.output, result.records, result.turns) == ("5", (), 2)
    assert model.asked[1][-1]["content"] == "5"


async def test_the_role_of_an_external_request_is_declared_and_sent_as_a_users() -> None:
    rules, model = Rules(), ScriptedModel(says("Noted."))
    await agent(model, rules).run("An event.", role="external")
    assert rules.at("input")[0]["input"]["role"] == "external"
    assert model.asked[0][0]["role"] == "user"


async def test_fields_of_the_host_are_in_every_context() -> None:
    rules = Rules()
    await agent(ScriptedModel(says("Hi.")), rules, fields={"tenant": {"id": "acme"}}).run("Hello")
    assert all(context["tenant"] == {"id": "acme"} for context in rules.seen)


def lambda_named(name: str, ran: list[str]) -> Any:
    def function() -> str:
        ran.append(name)
        return "done"

    function.__name__ = name
    return function
