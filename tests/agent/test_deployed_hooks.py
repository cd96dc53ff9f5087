"""The same plain functions deployed as interceptors: each answers at its own points by its contract."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import Transform, Verdict

from hookbus_client.agent import Hooks
from hookbus_interceptors import hooks as deployed

from .scripted import Rules, ScriptedModel, agent, calls, says

pytestmark = pytest.mark.anyio


async def run_with(*interceptors: Any, ran: list[str] | None = None, **options: Any) -> ScriptedModel:
    def book(seat: str) -> str:
        if ran is not None:
            ran.append(seat)
        return f"booked {seat} for DNI 30.111.222"

    model = ScriptedModel(calls(("book", {"seat": "12A"})), says("done"))
    await agent(model, *interceptors, tools=[book], **options).run("Book")
    return model


async def test_a_deployed_refusal_denies_and_the_model_reads_the_text() -> None:
    ran: list[str] = []

    @deployed.before_tool_execution
    def policy(call: dict[str, Any]) -> dict[str, Any]:
        return {"authorize": call["args"]["seat"] != "12A", "result": "Ask a manager.", "reason": "first_class"}

    model = await run_with(policy, ran=ran)
    assert ran == []
    assert "first_class" in model.asked[1][-1]["content"]
    assert "Ask a manager." in model.asked[1][-1]["content"]


async def test_a_deployed_authorisation_allows() -> None:
    ran: list[str] = []
    policy = deployed.before_tool_execution(lambda call: {"authorize": True})
    await run_with(policy, ran=ran)
    assert ran == ["12A"]


async def test_deployed_messages_are_what_is_sent() -> None:
    @deployed.before_provider_call
    async def steer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"role": "system", "content": "Short."}, *messages]

    model = await run_with(steer)
    assert [messages[0]["content"] for messages in model.asked] == ["Short.", "Short."]


def test_messages_edited_in_place_are_what_is_sent_also_where_a_context_shares_them_with_its_target() -> None:
    @deployed.before_provider_call
    def steer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        messages[0]["content"] = "Book politely."
        return messages

    messages = [{"role": "user", "content": "Book"}]
    verdict = steer.intercept({"interception_point": "pre_model_call", "messages": messages, "target": messages})
    assert verdict.transform == Transform("$target", [{"role": "user", "content": "Book politely."}])


async def test_a_deployed_result_is_what_the_model_reads() -> None:
    @deployed.after_tool_execution
    def redact(call: dict[str, Any], result: dict[str, Any]) -> str:
        return str(result["value"]).replace("30.111.222", "***")

    model = await run_with(redact)
    assert model.asked[1][-1]["content"] == "booked 12A for DNI ***"


async def test_a_deployed_result_hook_sees_the_refusal_of_a_local_hook() -> None:
    redact = deployed.after_tool_execution(lambda call, result: f"{result['value']} ({result['is_error']})")
    local = Hooks(before_tool_execution=lambda call: {"authorize": False, "result": "no"})
    model = await run_with(redact, hooks=local)
    assert model.asked[1][-1]["content"] == "no (True)"


async def test_the_turn_hooks_see_the_same_turns_deployed_as_local() -> None:
    seen: dict[str, list[Any]] = {"local": [], "deployed": []}

    def begins(where: str) -> Any:
        return lambda turn, messages: seen[where].append(("begins", turn, len(messages)))

    def ended(where: str) -> Any:
        return lambda turn, message: seen[where].append(("ended", turn, message["role"], message["content"]))

    local = Hooks(before_turn=begins("local"), after_turn=ended("local"))
    # Registered in the order in which they speak at a point that is both an end and a beginning.
    interceptors = (deployed.after_turn(ended("deployed")), deployed.before_turn(begins("deployed")))
    await run_with(*interceptors, hooks=local)
    assert seen["deployed"] == seen["local"]
    assert [event[:2] for event in seen["local"]] == [("begins", 1), ("ended", 1), ("begins", 2), ("ended", 2)]


@pytest.mark.parametrize(
    ("decorator", "returned"),
    [
        (deployed.before_tool_execution, None),
        (deployed.before_tool_execution, {"authorize": 1}),
        (deployed.before_tool_execution, {"decision": "allow"}),
        (deployed.after_tool_execution, None),
        (deployed.before_provider_call, None),
        (deployed.before_provider_call, ["text"]),
    ],
)
def test_what_breaks_a_hooks_contract_is_raised_and_never_an_allow(decorator: Any, returned: Any) -> None:
    interceptor = decorator(lambda *arguments: returned)
    (point,) = interceptor.points
    context = {
        "interception_point": point.value,
        "session": {"id": "s"},
        "tool_call": {"id": "c", "name": "f", "args": {}},
        "tool_result": {"value": "v", "is_error": False},
        "messages": [],
        "target": "v",
    }
    with pytest.raises(deployed.HookContractError):
        interceptor.intercept(context)


async def test_a_sync_hook_that_returns_an_awaitable_is_awaited() -> None:
    async def decide(call: dict[str, Any]) -> dict[str, Any]:
        return {"authorize": False, "result": "Later: no."}

    ran: list[str] = []
    model = await run_with(deployed.before_tool_execution(lambda call: decide(call)), ran=ran)
    assert ran == []
    assert "Later: no." in model.asked[1][-1]["content"]


def test_an_unchanged_value_is_an_allow_and_not_a_transform() -> None:
    same = deployed.after_tool_execution(lambda call, result: result["value"])
    context = {
        "interception_point": "post_tool_call",
        "tool_call": {"id": "c", "name": "f", "args": {}},
        "tool_result": {"value": {"a": 1}, "is_error": False},
        "target": {"a": 1},
    }
    assert same.intercept(context) == Verdict.allow()


def test_a_deployed_hook_allows_at_points_that_are_not_its_own() -> None:
    refuse = deployed.before_tool_execution(lambda call: {"authorize": False})
    assert refuse.intercept({"interception_point": "output", "target": {}}) == Verdict.allow()


def test_a_deployed_hook_still_is_the_plain_function() -> None:
    @deployed.before_tool_execution
    def policy(call: dict[str, Any]) -> dict[str, Any]:
        """Never."""
        return {"authorize": False}

    assert policy({}) == {"authorize": False}
    assert policy.__name__ == "policy"
    assert policy.__doc__ == "Never."


async def test_a_hook_that_raises_denies() -> None:
    def crash(call: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError

    ran: list[str] = []
    model = await run_with(deployed.before_tool_execution(crash), ran=ran)
    assert ran == []
    assert "host_error:interceptor_failed" in model.asked[1][-1]["content"]


async def test_mutating_what_a_hook_is_given_changes_nothing() -> None:
    def vandal(call: dict[str, Any], result: dict[str, Any]) -> Any:
        value = result["value"]
        result.clear()
        return value

    rules = Rules()
    model = await run_with(deployed.after_tool_execution(vandal), rules)
    assert model.asked[1][-1]["content"] == "booked 12A for DNI 30.111.222"
    assert rules.at("post_tool_call")[0]["tool_result"]["is_error"] is False
