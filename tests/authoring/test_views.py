"""Typed views: what they hold at each point, and that a malformed context raises one known error."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, InterceptionPoint
from hypothesis import given
from hypothesis import strategies as st

from hookbus_interceptors.authoring import (
    AgentShutdownContext,
    AgentStartupContext,
    Context,
    ContextMalformed,
    InputContext,
    OutputContext,
    PostModelCallContext,
    PostToolCallContext,
    PreModelCallContext,
    PreToolCallContext,
)
from hookbus_interceptors.authoring.context_views import VIEWS, Budgets, Tool

BUILDER = AgentContextBuilder(
    agent_id="traveller", framework="tests", session_id="s-1", agent_name="Traveller", agent_version="3"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
#: Every attribute of every view.
BLOCKS = {
    view: [name for kind in view.__mro__ for name in vars(kind) if not name.startswith("_") and name != "block"]
    for view in VIEWS.values()
}


def test_every_point_has_a_view_of_its_own() -> None:
    assert list(VIEWS) == list(InterceptionPoint)
    assert len(set(VIEWS.values())) == len(InterceptionPoint)


def test_the_view_of_a_tool_call_holds_its_name_and_arguments() -> None:
    view = PreToolCallContext(BUILDER.pre_tool_call(call_id="c-1", name="book", args={"seat": {"class": 1}}))
    assert (view.tool_call.id, view.tool_call.name, view.tool_call.args) == ("c-1", "book", {"seat": {"class": 1}})
    assert view.target == view.tool_call.args
    assert view.point is InterceptionPoint.PRE_TOOL_CALL
    assert (view.agent.id, view.agent.framework, view.agent.name, view.agent.version) == (
        "traveller",
        "tests",
        "Traveller",
        "3",
    )
    assert view.session.id == "s-1"


def test_the_view_of_a_result_holds_value_and_error() -> None:
    raw = BUILDER.post_tool_call(call_id="c", name="find", args={}, value=[1, None], is_error=True, duration_ms=5)
    view = PostToolCallContext(raw)
    assert (view.tool_result.value, view.tool_result.is_error, view.tool_result.duration_ms) == (
        [1, None],
        True,
        5,
    )
    assert view.tool_call.name == "find"


def test_the_views_of_a_model_call_hold_what_is_sent_and_what_came() -> None:
    messages = [{"role": "user", "content": "hi", "own": 1}]
    before = PreModelCallContext(
        BUILDER.pre_model_call(
            model_id="m", messages=messages, tools=[{"name": "book", "schema": {"type": "object"}}]
        )
    )
    assert (before.model.id, before.messages) == ("m", messages)
    assert before.tools == [Tool("book", None, {"type": "object"})]
    after = PostModelCallContext(
        BUILDER.post_model_call(
            model_id="m",
            content=None,
            tool_calls=[{"name": "book", "args": {"seat": 1}}],
            finish_reason="tool_calls",
            usage={"prompt_tokens": 7, "completion_tokens": 2},
        )
    )
    assert after.response.tool_calls[0].args == {"seat": 1}
    assert after.response.finish_reason == "tool_calls"
    assert after.usage.prompt_tokens == 7


def test_the_views_of_what_comes_in_and_goes_out_hold_its_content() -> None:
    assert InputContext(BUILDER.input(content="hi", role="external")).input.role == "external"
    assert OutputContext(BUILDER.output(content=["a"])).output.content == ["a"]
    startup = AgentStartupContext(BUILDER.agent_startup(tools_registered=["book"]))
    assert startup.agent_init.tools_registered == ["book"]
    assert AgentShutdownContext(BUILDER.agent_shutdown(reason="completed", errors=1)).summary.errors == 1


def test_what_the_agent_does_not_say_is_none_or_empty() -> None:
    view = PreModelCallContext(BUILDER.pre_model_call(model_id="m", messages=[]))
    assert (view.tenant_id, view.actor.id, view.actor.kind, view.budgets) == (None, None, None, Budgets())
    assert (view.extensions, view.source_labels("redact"), view.tools) == ({}, (), [])
    assert (
        PostModelCallContext(
            BUILDER.post_model_call(model_id="m", content="", tool_calls=[], finish_reason="stop")
        ).usage.prompt_tokens
        is None
    )


def test_what_the_agent_says_of_itself_stands_in_the_view() -> None:
    raw = BUILDER.output(content="x") | {
        "tenant": {"id": "acme"},
        "actor": {"id": "u-1", "kind": "human"},
        "budgets": {"cost_usd": 1.5, "tool_call_count": 3},
        "extensions": {"two_words": {"source_labels": ["a", "b"]}, "other": 1},
    }
    view = OutputContext(raw)
    assert (view.tenant_id, view.actor.id, view.actor.kind) == ("acme", "u-1", "human")
    assert (view.budgets.cost_usd, view.budgets.tool_call_count) == (1.5, 3)
    assert view.source_labels("two-words") == ("a", "b")
    with pytest.raises(ContextMalformed, match="extensions"):
        view.source_labels("other")


@pytest.mark.parametrize(
    "block",
    [None, {}, "a secret", {"id": 7, "name": "x", "args": {}}, {"id": "c", "name": "x", "args": ["a secret"]}],
)
def test_a_malformed_block_raises_and_is_not_quoted(block: Any) -> None:
    view = PreToolCallContext(BUILDER.pre_tool_call(call_id="c", name="n", args={}) | {"tool_call": block})
    with pytest.raises(ContextMalformed) as caught:
        _ = view.tool_call
    assert "tool_call" in str(caught.value)
    assert "secret" not in str(caught.value)


@given(
    st.sampled_from(list(VIEWS.values())),
    st.dictionaries(st.sampled_from(sorted({n for b in BLOCKS.values() for n in b} | {"tenant"})), JSON),
)
def test_reading_any_context_gives_a_value_or_the_one_error(kind: type[Context], raw: dict[str, Any]) -> None:
    view = kind(raw)
    for name in BLOCKS[kind]:
        try:
            found = getattr(view, name)
            if name == "source_labels":
                found = view.source_labels("redact")
                assert all(isinstance(label, str) for label in found)
        except ContextMalformed:
            continue
