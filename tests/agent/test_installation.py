"""A second installation, and a half one, are refused when the agent is built."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from agent_hooks import HostRegistry, HostSurface, InterceptionEmitter

from hookbus_client import BusEmitter
from hookbus_client.agent import (
    Agent,
    HalfInstallation,
    Hooks,
    OpenAIModel,
    SecondInstallation,
    mark_mediated,
    tool,
)
from hookbus_interceptors.hooks import before_tool_execution

from .scripted import Rules, ScriptedModel, emitter, says

pytestmark = pytest.mark.anyio


def book(seat: str) -> str:
    return seat


def build(model: Any = None, emitting: Any = None, **options: Any) -> Agent:
    return Agent(model or ScriptedModel(), emitting, agent_id="desk", **options)


def test_a_model_that_is_mediated_already_is_refused() -> None:
    model = ScriptedModel()
    mark_mediated(model)
    with pytest.raises(SecondInstallation, match="the model is already mediated"):
        build(model)


def test_a_client_that_is_mediated_already_is_refused() -> None:
    client: Any = SimpleNamespace()
    mark_mediated(client)
    with pytest.raises(SecondInstallation, match="the model's client"):
        build(OpenAIModel(client, "gpt"))


def test_a_tool_or_function_that_is_mediated_already_is_refused() -> None:
    def guarded() -> None: ...

    mark_mediated(guarded)
    for made in (guarded, tool(guarded)):
        with pytest.raises(SecondInstallation, match="'guarded'"):
            build(tools=[made])


def test_a_hook_that_is_deployed_is_not_a_local_hook_as_well() -> None:
    deployed = before_tool_execution(lambda call: {"authorize": True})
    with pytest.raises(SecondInstallation, match="before_tool_execution"):
        build(hooks=Hooks(before_tool_execution=deployed))


def test_an_agents_method_is_not_a_tool() -> None:
    inner = build()
    with pytest.raises(SecondInstallation, match="as_tool"):
        build(tools=[inner.run])


def test_an_agent_is_not_a_model() -> None:
    with pytest.raises(HalfInstallation, match="OpenAIModel"):
        build(build())


def test_a_nested_agent_without_an_emitter_under_one_with_is_refused() -> None:
    bare = build()
    with pytest.raises(HalfInstallation, match="no emitter"):
        build(emitting=emitter(Rules()), tools=[bare.as_tool(name="bare")])
    build(tools=[bare.as_tool(name="bare")])


@pytest.mark.parametrize("missing", ["emit", "emit_unchecked", "record_host_failure"])
def test_an_emitter_without_all_of_its_methods_is_refused(missing: str) -> None:
    methods = {name: lambda *a, **k: None for name in ("emit", "emit_unchecked", "record_host_failure")}
    del methods[missing]
    with pytest.raises(HalfInstallation, match=rf"no {missing}\(\)"):
        build(emitting=SimpleNamespace(**methods))


def test_incremental_mediation_needs_an_emitter_that_records_the_hosts_own_denials() -> None:
    with pytest.raises(HalfInstallation, match="record_host_denial"):
        build(emitting=InterceptionEmitter(), streaming="incremental")
    build(emitting=emitter(), streaming="incremental")
    build(emitting=InterceptionEmitter())


def test_what_is_declared_is_what_runs() -> None:
    surface = HostSurface.from_capabilities(["model_calls", "tool_calls"], "continue")
    document = {"declaration": "agent-hooks-declaration/1.0", "spec": "agent-hooks/0.1", "bindings": []}
    declared = BusEmitter.from_declaration_value(document, HostRegistry(surface))
    build(emitting=declared, posture="continue")
    with pytest.raises(HalfInstallation, match="says continue, the agent terminate"):
        build(emitting=declared, posture="terminate")
    with pytest.raises(HalfInstallation, match="buffered_output"):
        build(emitting=declared, streaming="incremental")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'book'"):
        build(tools=[book, book])


def test_max_turns_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="max_turns"):
        build(max_turns=0)


async def test_agents_may_share_an_emitter_a_model_and_a_tool() -> None:
    rules = Rules()
    shared, model, made = emitter(rules), ScriptedModel(says("a"), says("b")), tool(book)
    first, second = (Agent(model, shared, agent_id=name, tools=[made]) for name in ("one", "two"))
    async with first.session() as one, second.session() as two:
        assert (await one.run("x")).output == "a"
        assert (await two.run("x")).output == "b"
    for agent_id in ("one", "two"):
        own = [c["sequence"] for c in rules.seen if c["agent"]["id"] == agent_id]
        assert own == list(range(6))
