"""The five plain hooks as local callables: when they run, what they see, what they decide."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import Verdict

from hookbus_client.agent import Agent, HookContractError, Hooks, ToolCall

from .scripted import Rules, ScriptedModel, agent, calls, says, transform

pytestmark = pytest.mark.anyio


class Desk:
    """A tool and its log."""

    def __init__(self) -> None:
        self.booked: list[str] = []

    def book(self, seat: str) -> str:
        self.booked.append(seat)
        return f"booked {seat}"


async def read_with(hooks: Hooks, *interceptors: Any, desk: Desk | None = None) -> str:
    model = ScriptedModel(calls(("book", {"seat": "12A"})), says("done"))
    desk = desk or Desk()
    await agent(model, *(interceptors or (Rules(),)), tools=[desk.book], hooks=hooks).run("Book")
    return str(model.asked[1][-1]["content"])


async def test_the_hooks_of_a_run_are_called_in_order() -> None:
    log: list[str] = []

    def turn_begins(turn: int, messages: list[Any]) -> None:
        log.append(f"before_turn {turn} {messages[-1]['role']}")

    async def provider(messages: list[Any]) -> list[Any]:
        log.append("before_provider_call")
        return messages

    def before(call: dict[str, Any]) -> dict[str, Any]:
        log.append(f"before_tool_execution {call['name']} {call['args']}")
        return {"authorize": True}

    async def after(call: dict[str, Any], result: dict[str, Any]) -> Any:
        log.append(f"after_tool_execution {result}")
        return result["value"]

    def turn_ended(turn: int, message: dict[str, Any]) -> None:
        log.append(f"after_turn {turn} {message['content']}")

    await read_with(Hooks(turn_begins, provider, before, after, turn_ended))
    assert log == [
        "before_turn 1 user",
        "before_provider_call",
        "before_tool_execution book {'seat': '12A'}",
        "after_tool_execution {'value': 'booked 12A', 'is_error': False}",
        "after_turn 1 None",
        "before_turn 2 tool",
        "before_provider_call",
        "after_turn 2 done",
    ]


async def test_what_before_provider_call_returns_is_judged_and_sent_but_not_remembered() -> None:
    rules, model = Rules(), ScriptedModel(says("Hi."))
    hooks = Hooks(before_provider_call=lambda messages: [{"role": "system", "content": "Short."}, *messages])
    result = await agent(model, rules, hooks=hooks).run("Hello")
    assert rules.at("pre_model_call")[0]["messages"][0] == {"role": "system", "content": "Short."}
    assert model.asked[0][0] == {"role": "system", "content": "Short."}
    assert [message["role"] for message in result.messages] == ["user", "assistant"]


async def test_a_refused_call_never_runs_and_the_model_reads_the_text_as_an_error_result() -> None:
    desk, rules = Desk(), Rules()
    hooks = Hooks(
        before_tool_execution=lambda call: {"authorize": False, "result": "First class needs a manager."}
    )
    assert await read_with(hooks, rules, desk=desk) == "First class needs a manager."
    assert desk.booked == []
    assert rules.at("post_tool_call")[0]["tool_result"]["is_error"] is True


async def test_a_refusal_without_a_text_has_a_stock_one() -> None:
    hooks = Hooks(before_tool_execution=lambda call: {"authorize": False})
    assert await read_with(hooks) == "The call was refused."


async def test_what_a_hook_authorises_is_what_runs() -> None:
    desk, seen = Desk(), []

    def authorize(call: dict[str, Any]) -> dict[str, Any]:
        seen.append(call["args"])
        call["args"]["seat"] = "1A"  # a copy: it changes nothing
        return {"authorize": True}

    await read_with(
        Hooks(before_tool_execution=authorize), Rules(pre_tool_call=transform("$target.seat", "40F")), desk=desk
    )
    assert seen[0] == {"seat": "1A"}
    assert desk.booked == ["40F"]


async def test_a_call_that_policy_denied_reaches_no_before_tool_execution() -> None:
    asked: list[Any] = []
    hooks = Hooks(before_tool_execution=lambda call: asked.append(call) or {"authorize": True})
    await read_with(hooks, Rules(pre_tool_call=Verdict.deny(reason="no")))
    assert asked == []


@pytest.mark.parametrize("how", ["ran", "refused", "denied", "raised", "unknown", "unparsed"])
async def test_what_after_tool_execution_returns_is_what_the_model_reads_whatever_became_of_the_call(
    how: str,
) -> None:
    seen: list[dict[str, Any]] = []

    def after(call: dict[str, Any], result: dict[str, Any]) -> str:
        seen.append(result)
        return "REWRITTEN"

    def book(seat: str) -> str:
        if how == "raised":
            raise RuntimeError("full")
        return "booked"

    refuse = (lambda call: {"authorize": False, "result": "no"}) if how == "refused" else None
    asked = {"unknown": ToolCall("c", "fly"), "unparsed": ToolCall("c", "book", unparsed="{")}
    model = ScriptedModel(calls(asked.get(how, ("book", {"seat": "12A"}))), says("done"))
    rules = Rules(pre_tool_call=Verdict.deny(reason="no")) if how == "denied" else Rules()
    hooks = Hooks(before_tool_execution=refuse, after_tool_execution=after)
    await agent(model, rules, tools=[book], hooks=hooks).run("Book")

    assert model.asked[1][-1]["content"] == "REWRITTEN"
    assert [result["is_error"] for result in seen] == [how != "ran"]


async def test_what_after_tool_execution_returns_passes_post_tool_call() -> None:
    rules = Rules(post_tool_call=Verdict.deny(reason="tainted"))
    read = await read_with(Hooks(after_tool_execution=lambda call, result: "SECRET"), rules)
    assert rules.at("post_tool_call")[0]["tool_result"]["value"] == "SECRET"
    assert "SECRET" not in read


@pytest.mark.parametrize(
    "hooks",
    [
        Hooks(before_provider_call=lambda messages: None),
        Hooks(before_provider_call=lambda messages: ["text"]),
        Hooks(before_tool_execution=lambda call: None),
        Hooks(before_tool_execution=lambda call: True),
        Hooks(before_tool_execution=lambda call: {"authorize": "yes"}),
        Hooks(before_tool_execution=lambda call: {"decision": "allow"}),
        Hooks(after_tool_execution=lambda call, result: None),
        Hooks(after_tool_execution=lambda call, result: object()),
    ],
)
async def test_a_hook_that_returns_rubbish_ends_the_run_and_nothing_it_guards_happens(hooks: Hooks) -> None:
    desk, rules = Desk(), Rules()
    model = ScriptedModel(calls(("book", {"seat": "12A"})), says("done"))
    with pytest.raises(HookContractError, match="must return"):
        await agent(model, rules, tools=[desk.book], hooks=hooks).run("Book")
    assert rules.seen[-1]["summary"] == {"reason": "error"}
    assert len(model.asked) == (0 if hooks.before_provider_call else 1)
    assert desk.booked == ([] if hooks.after_tool_execution is None else ["12A"])


async def test_a_hook_that_raises_ends_the_run_with_its_own_error() -> None:
    def crash(call: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("policy")

    desk = Desk()
    model = ScriptedModel(calls(("book", {"seat": "1"}), ("book", {"seat": "2"})), says("done"))
    with pytest.raises(KeyError, match="policy"):
        await agent(model, Rules(), tools=[desk.book], hooks=Hooks(before_tool_execution=crash)).run("Book")
    assert desk.booked == []


async def test_hooks_work_without_an_emitter() -> None:
    desk = Desk()
    hooks = Hooks(before_tool_execution=lambda call: {"authorize": False, "result": "no"})
    model = ScriptedModel(calls(("book", {"seat": "1"})), says("done"))
    await Agent(model, agent_id="desk", tools=[desk.book], hooks=hooks).run("Book")
    assert (desk.booked, model.asked[1][-1]["content"]) == ([], "no")


async def test_after_turn_sees_the_answer_as_the_output_verdict_left_it() -> None:
    seen: list[Any] = []
    hooks = Hooks(after_turn=lambda turn, message: seen.append(message["content"]))
    await agent(ScriptedModel(says("SECRET")), Rules(output=transform("$target.content", "***")), hooks=hooks).run(
        "x"
    )
    assert seen == ["***"]
