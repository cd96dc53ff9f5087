"""Tool calls: a pair of verdicts each, in parallel, and what the model reads of a deny (§6, §12.2)."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import anyio
import pytest
from agent_hooks import HostRegistry, HostSurface, InterceptionBlocked, Verdict

from hookbus_client import BusEmitter
from hookbus_client.agent import Agent, Tool, ToolCall, ToolResult

from .scripted import Rules, ScriptedModel, agent, calls, says, transform

pytestmark = pytest.mark.anyio


class Till:
    """A tool that remembers its calls."""

    def __init__(self, returns: Any = "paid") -> None:
        self.paid: list[dict[str, Any]] = []
        self._returns = returns

    def pay(self, amount: int) -> Any:
        self.paid.append({"amount": amount})
        return self._returns


async def two_turns(till: Till, *interceptors: Any, **options: Any) -> tuple[ScriptedModel, str]:
    """Have the model pay 100 and then answer; return the model and what it read of the call."""
    model = ScriptedModel(calls(("pay", {"amount": 100})), says("done"))
    result = await agent(model, *interceptors, tools=[till.pay], **options).run("Pay")
    assert result.output == "done"
    return model, str(model.asked[1][-1]["content"])


async def test_a_denied_call_never_runs_and_the_model_reads_the_reason_but_not_the_payload() -> None:
    till, rules = Till(), Rules(pre_tool_call=Verdict.deny(reason="over_budget", message="Ask a manager."))
    _, read = await two_turns(till, rules)
    assert till.paid == []
    assert "over_budget" in read
    assert "Ask a manager." in read
    assert "100" not in read
    assert "post_tool_call" not in rules.points


async def test_a_denied_result_is_discarded_and_the_model_reads_the_reason() -> None:
    till = Till(returns="SECRET-RESULT")
    model, read = await two_turns(till, Rules(post_tool_call=Verdict.deny(reason="tainted")))
    assert till.paid == [{"amount": 100}]
    assert "tainted" in read
    assert "SECRET-RESULT" not in str(model.asked)


async def test_a_tool_runs_with_the_arguments_that_the_verdict_left() -> None:
    till, rules = Till(), Rules(pre_tool_call=transform("$target.amount", 5))
    await two_turns(till, rules)
    assert till.paid == [{"amount": 5}]
    assert rules.at("post_tool_call")[0]["tool_call"]["args"] == {"amount": 5}


async def test_the_model_reads_the_result_that_the_verdict_left() -> None:
    _, read = await two_turns(Till("DNI 30.111.222"), Rules(post_tool_call=transform("$target", "DNI ***")))
    assert read == "DNI ***"


async def test_what_a_tool_does_to_its_arguments_is_not_what_is_reported() -> None:
    async def mutate(args: dict[str, Any]) -> str:
        args.clear()
        return "ok"

    rules = Rules()
    model = ScriptedModel(calls(("mutate", {"x": [1]})), says("done"))
    await agent(model, rules, tools=[Tool("mutate", mutate)]).run("go")
    assert rules.at("post_tool_call")[0]["tool_call"]["args"] == {"x": [1]}


class Broken:
    async def intercept(self, context: Any) -> Any:
        if context["interception_point"] == "pre_tool_call":
            raise RuntimeError
        return Verdict.allow()


async def test_a_host_error_at_the_tool_seam_continues_by_default() -> None:
    till = Till()
    _, read = await two_turns(till, Broken())
    assert till.paid == []
    assert "host_error:interceptor_failed" in read


@pytest.mark.parametrize("declared", [False, True])
async def test_a_host_error_at_the_tool_seam_ends_the_run_when_the_posture_is_to_terminate(declared: bool) -> None:
    till, model = Till(), ScriptedModel(calls(("pay", {"amount": 1})), says("done"))
    if declared:
        emitter = _terminating(Broken())
        desk = Agent(model, emitter, agent_id="desk", tools=[till.pay])
    else:
        desk = agent(model, Broken(), tools=[till.pay], posture="terminate")
    with pytest.raises(InterceptionBlocked, match="host_error:interceptor_failed"):
        await desk.run("Pay")
    assert (till.paid, len(model.asked)) == ([], 1)


async def test_a_policys_own_deny_continues_whatever_the_posture() -> None:
    till = Till()
    _, read = await two_turns(till, Rules(pre_tool_call=Verdict.deny(reason="no")), posture="terminate")
    assert "no" in read


async def test_an_unknown_tool_becomes_text_and_is_no_invocation() -> None:
    rules, model = Rules(), ScriptedModel(calls(("fly", {})), says("done"))
    await agent(model, rules, tools=[Till().pay]).run("go")
    assert model.asked[1][-1]["content"] == "There is no tool named 'fly'. Tools: pay."
    assert "pre_tool_call" not in rules.points


async def test_arguments_that_are_not_one_object_become_text_that_interceptors_can_see() -> None:
    till, rules = Till(), Rules()
    model = ScriptedModel(calls(ToolCall("call-0", "pay", {}, unparsed='{"amount": 1')), says("done"))
    await agent(model, rules, tools=[till.pay]).run("go")
    assert till.paid == []
    assert "not one plain JSON object" in model.asked[1][-1]["content"]
    assert rules.at("post_model_call")[0]["response"]["tool_calls"][0]["unparsed_arguments"] == '{"amount": 1'
    assert "pre_tool_call" not in rules.points


async def test_a_transform_that_drops_the_mark_does_not_make_a_broken_call_run() -> None:
    def unmark(context: Any) -> Any:
        call = context["response"]["tool_calls"][0] if context["response"]["tool_calls"] else None
        if call is None:
            return Verdict.allow()
        return transform("$target.tool_calls", [{name: call[name] for name in ("id", "name", "args")}])

    ran: list[int] = []
    model = ScriptedModel(calls(ToolCall("call-0", "f", {}, unparsed="{")), says("done"))
    await agent(model, Rules(post_model_call=unmark), tools=[_counting("f", ran)]).run("go")
    assert ran == []


async def test_parallel_calls_run_at_once_each_in_its_own_pair_with_unique_rising_sequence_numbers() -> None:
    count = 20
    together = threading.Barrier(count)  # passes only when all of them run at the same time
    rules = Rules()

    def meet(n: int) -> int:
        together.wait(timeout=30)
        return n

    asked = calls(*(("meet", {"n": n}) for n in range(count)))
    model = ScriptedModel(asked, says("done"))
    result = await agent(model, rules, tools=[meet]).run("go")

    pairs = Counter(c["tool_call"]["id"] for c in rules.at("pre_tool_call") + rules.at("post_tool_call"))
    assert pairs == {f"call-{n}": 2 for n in range(count)}
    numbers = sorted(context["sequence"] for context in rules.seen)
    assert numbers == list(range(len(rules.seen)))
    for call_id in pairs:
        before, after = (c["sequence"] for c in rules.seen if c.get("tool_call", {}).get("id") == call_id)
        assert before < after
    read = [message["content"] for message in model.asked[1][-count:]]
    assert read == [str(n) for n in range(count)]
    assert len(result.records) == len(rules.seen)


async def test_one_denied_call_of_several_leaves_the_others_alone() -> None:
    rules = Rules(
        pre_tool_call=lambda c: (
            Verdict.deny(reason="odd") if c["tool_call"]["args"]["amount"] % 2 else Verdict.allow()
        )
    )
    till = Till()
    model = ScriptedModel(calls(*(("pay", {"amount": n}) for n in range(4))), says("done"))
    await agent(model, rules, tools=[till.pay]).run("go")
    assert sorted(paid["amount"] for paid in till.paid) == [0, 2]
    assert ["odd" in message["content"] for message in model.asked[1][-4:]] == [False, True, False, True]


async def test_calls_that_share_an_id_or_have_none_get_ids_of_their_own() -> None:
    same = [ToolCall("", "f"), ToolCall("x", "f"), ToolCall("x", "f")]
    ran: list[int] = []
    rules, model = Rules(), ScriptedModel(calls(*same), says("done"))
    await agent(model, rules, tools=[_counting("f", ran)]).run("go")
    ids = [context["tool_call"]["id"] for context in rules.at("pre_tool_call")]
    assert len(set(ids)) == len(ran) == 3
    assert all(ids)
    assert [call["id"] for call in model.asked[1][1]["tool_calls"]] == [
        message["tool_call_id"] for message in model.asked[1][2:]
    ]


async def test_a_call_that_the_provider_ran_is_visible_after_the_model_call_and_never_executed() -> None:
    ran: list[int] = []
    hosted = ToolCall("ws-1", "f", {"q": "trains"}, hosted=True)
    rules, model = Rules(), ScriptedModel(calls(hosted, content="Found one."))
    result = await agent(model, rules, tools=[_counting("f", ran)]).run("go")
    assert rules.at("post_model_call")[0]["response"]["tool_calls"] == [
        {"id": "ws-1", "name": "f", "args": {"q": "trains"}, "executed_by": "provider"}
    ]
    assert (result.output, ran) == ("Found one.", [])
    assert "pre_tool_call" not in rules.points


async def test_a_transform_cannot_make_a_hosted_call_ours() -> None:
    ran: list[int] = []
    hosted = ToolCall("ws-1", "f", {}, hosted=True)
    unmarked = transform("$target.tool_calls", [{"id": "ws-1", "name": "f", "args": {}}])
    model = ScriptedModel(calls(hosted, content="Found one."))
    await agent(model, Rules(post_model_call=unmarked), tools=[_counting("f", ran)]).run("go")
    assert ran == []


async def test_a_hung_sync_tool_does_not_hold_a_cancelled_run() -> None:
    started, release = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(timeout=30)

    rules = Rules()
    desk = agent(ScriptedModel(calls(("hang", {}))), rules, tools=[hang])
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(desk.run, "go")
            await anyio.to_thread.run_sync(started.wait)
            group.cancel_scope.cancel()
        assert not release.is_set()
        assert rules.seen[-1]["summary"] == {"reason": "cancelled"}
    finally:
        release.set()


def _counting(name: str, ran: list[int]) -> Tool:
    async def call(args: dict[str, Any]) -> ToolResult:
        ran.append(1)
        return ToolResult("ok")

    return Tool(name, call)


def _terminating(interceptor: Any) -> BusEmitter:
    surface = HostSurface.from_capabilities(["model_calls", "tool_calls"], "terminate")
    registry = HostRegistry(surface)
    registry.kind("test.instance", lambda config, context: interceptor)
    document = {
        "declaration": "agent-hooks-declaration/1.0",
        "spec": "agent-hooks/0.1",
        "configuration": {"posture": {"tool_seam_host_error": "terminate"}},
        "bindings": [{"id": "broken", "kind": "test.instance"}],
    }
    emitter = BusEmitter.from_declaration_value(document, registry)
    assert isinstance(emitter, BusEmitter)
    return emitter


async def test_interceptors_of_a_tool_call_see_the_conversation_up_to_it_and_how_the_tool_is_declared() -> None:
    till, rules = Till(), Rules()
    model = ScriptedModel(calls(("pay", {"amount": 100})), calls(("pay", {"amount": 7})), says("done"))
    await agent(model, rules, tools=[till.pay], instructions="Be careful.").run("Pay")
    first, second = rules.at("pre_tool_call")
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant"]
    assert first["messages"][1] == {"role": "user", "content": "Pay"}
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert [message["content"] for message in second["messages"] if message["role"] == "tool"] == ["paid"]
    assert second["messages"][-1]["tool_calls"][0]["id"] == second["tool_call"]["id"]
    assert [tool["name"] for tool in second["tools"]] == ["pay"]
    assert "amount" in second["tools"][0]["schema"]["properties"]
