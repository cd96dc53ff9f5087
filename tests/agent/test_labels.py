"""Result labels are kept with the data they label and come back with what derives from it (§5.4)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import EnforcementMode, Verdict

from hookbus_client.agent import Agent, InMemoryHistory

from .scripted import Rules, ScriptedModel, agent, calls, emitter, says

pytestmark = pytest.mark.anyio


def labelled(*labels: str) -> dict[str, Any]:
    return {"decision": "allow", "result_labels": list(labels)}


def sources(context: dict[str, Any], namespace: str = "hookbus") -> list[str] | None:
    extension = context.get("extensions", {}).get(namespace)
    return None if extension is None else list(extension["source_labels"])


def read(name: str) -> str:
    return "a row"


async def test_a_labelled_tool_result_labels_everything_that_derives_from_it() -> None:
    rules = Rules(post_tool_call=labelled("pii"))
    model = ScriptedModel(calls(("read", {"name": "x"})), calls(("read", {"name": "y"})), says("done"))
    history = InMemoryHistory()
    result = await agent(model, rules, tools=[read], history=history).run("Go")

    assert [sources(c) for c in rules.at("pre_model_call")] == [None, ["pii"], ["pii"]]
    assert [sources(c) for c in rules.at("post_model_call")] == [None, ["pii"], ["pii"]]
    assert [sources(c) for c in rules.at("pre_tool_call")] == [None, ["pii"]]
    assert sources(rules.at("output")[0]) == ["pii"]
    assert result.labels == ("pii",)
    assert [entry.labels for entry in await history.load()] == [(), (), ("pii",), ("pii",), ("pii",), ("pii",)]


async def test_labels_of_every_point_stay_with_what_the_point_produced() -> None:
    rules = Rules(
        input=labelled("from_user"),
        pre_model_call=labelled("sent"),
        post_model_call=labelled("model"),
        output=labelled("answer"),
    )
    result = await agent(ScriptedModel(says("done")), rules).run("Go")
    assert sources(rules.at("pre_model_call")[0]) == ["from_user"]
    assert sources(rules.at("post_model_call")[0]) == ["from_user", "sent"]
    assert sources(rules.at("output")[0]) == ["from_user", "sent", "model"]
    assert result.labels == ("from_user", "sent", "model", "answer")


async def test_labels_come_back_in_a_later_session_of_the_same_history() -> None:
    history, rules = InMemoryHistory(), Rules(post_tool_call=labelled("pii"))
    model = ScriptedModel(calls(("read", {"name": "x"})), says("done"), says("again"))
    desk = agent(model, rules, tools=[read], history=history)
    await desk.run("Go")
    await desk.run("And?")
    assert sources(rules.at("pre_model_call")[-1]) == ["pii"]


@pytest.mark.parametrize("point", ["pre_tool_call", "post_tool_call"])
async def test_labels_of_a_call_that_did_not_proceed_are_dropped(point: str) -> None:
    rules = Rules(**{point: {"decision": "deny", "reason": "no", "result_labels": ["dropped"]}})
    model = ScriptedModel(calls(("read", {"name": "x"})), says("done"))
    result = await agent(model, rules, tools=[read]).run("Go")
    assert all(sources(context) is None for context in rules.seen)
    assert result.labels == ()


async def test_labels_of_a_permitted_call_go_with_a_withheld_result() -> None:
    rules = Rules(pre_tool_call=labelled("called"), post_tool_call=Verdict.deny(reason="no"))
    model = ScriptedModel(calls(("read", {"name": "x"})), says("done"))
    result = await agent(model, rules, tools=[read]).run("Go")
    assert sources(rules.at("post_tool_call")[0]) == ["called"]
    assert result.labels == ()


async def test_a_deny_that_only_evaluates_earns_no_labels() -> None:
    rules = Rules(input={"decision": "deny", "result_labels": ["dropped"]})
    desk = Agent(ScriptedModel(says("hi")), emitter(rules, mode=EnforcementMode.EVALUATE_ONLY), agent_id="desk")
    assert (await desk.run("Go")).labels == ()


async def test_every_declared_namespace_gets_the_union_beside_what_the_host_put_there() -> None:
    rules = Rules(input=labelled("from_user"))
    await agent(
        ScriptedModel(says("done")),
        rules,
        label_namespaces=("hookbus", "flow-policy"),
        fields={"extensions": {"hookbus": {"version": 1}, "desk": {"floor": 2}}},
    ).run("Go")
    assert rules.at("output")[0]["extensions"] == {
        "hookbus": {"version": 1, "source_labels": ["from_user"]},
        "flow_policy": {"source_labels": ["from_user"]},
        "desk": {"floor": 2},
    }
    assert rules.at("input")[0]["extensions"] == {"hookbus": {"version": 1}, "desk": {"floor": 2}}


@pytest.mark.parametrize("name", ["", "1st", "Policy", "a.b", "acs", "agent-hooks"])
def test_a_namespace_that_the_standard_forbids_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="namespace"):
        agent(ScriptedModel(), label_namespaces=(name,))


async def test_labels_go_into_a_nested_agent_and_come_out_of_it() -> None:
    def outer_or_inner(context: dict[str, Any]) -> dict[str, Any]:
        return labelled("inner" if context["agent"]["id"] == "finder" else "outer")

    rules = Rules(post_model_call=outer_or_inner)
    shared = emitter(rules)
    inner = Agent(ScriptedModel(says("row")), shared, agent_id="finder")
    model = ScriptedModel(calls(("finder", {"input": "x"})), says("done"))
    await Agent(model, shared, agent_id="desk", tools=[inner.as_tool()]).run("Go")

    inner_input = next(c for c in rules.at("input") if c["agent"]["id"] == "finder")
    assert sources(inner_input) == ["outer"]
    assert sources(rules.at("post_tool_call")[0]) == ["outer", "inner"]
    assert sources(rules.at("pre_model_call")[-1]) == ["outer", "inner"]
