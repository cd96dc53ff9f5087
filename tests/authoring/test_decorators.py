"""Decorated functions: where they answer, how they combine, and that whatever is no verdict denies."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from agent_hooks import InterceptionPoint, Verdict

from hookbus_interceptors import authoring
from hookbus_interceptors.authoring import (
    Interceptor,
    NoPoint,
    NotAVerdict,
    OutputContext,
    PreToolCallContext,
    allow,
    at,
    deny,
    every_point,
    output,
    pre_tool_call,
    replace,
)
from hookbus_interceptors.authoring.context_views import VIEWS
from hookbus_interceptors.authoring.testing import TestClient


@pre_tool_call
def no_drops(context: PreToolCallContext) -> Verdict:
    """Refuse one tool."""
    return deny("db:no-drops") if context.tool_call.name == "drop_table" else allow()


@output
async def shout(context: OutputContext) -> Verdict:
    return replace("$target.content", context.output.content.upper())


def ask_everywhere(client: TestClient) -> dict[str, Any]:
    return {
        "agent_startup": client.agent_startup(["book"]),
        "input": client.input("hi"),
        "pre_model_call": client.pre_model_call([{"role": "user", "content": "hi"}]),
        "post_model_call": client.post_model_call("hi"),
        "pre_tool_call": client.pre_tool_call("drop_table", {}),
        "post_tool_call": client.post_tool_call("drop_table", {}, 1),
        "output": client.output("hi"),
        "agent_shutdown": client.agent_shutdown(),
    }


@pytest.mark.parametrize("point", InterceptionPoint)
def test_each_decorator_answers_at_its_own_point_with_its_view_and_allows_elsewhere(
    point: InterceptionPoint,
) -> None:
    seen = []

    @getattr(authoring, point.value)
    def refuse(context: Any) -> Verdict:
        seen.append(type(context))
        return deny("refused")

    assert refuse.points == {point}
    answers = ask_everywhere(TestClient(refuse))
    assert {name for name, answer in answers.items() if not answer.permits} == {point.value}
    assert seen == [VIEWS[point]]


def test_a_decorated_function_is_still_a_function() -> None:
    assert no_drops.__name__ == "no_drops"
    assert no_drops.__doc__ == "Refuse one tool."
    view = PreToolCallContext({"tool_call": {"id": "c", "name": "drop_table", "args": {}}})
    assert no_drops(view) == deny("db:no-drops")


def test_several_functions_are_one_interceptor() -> None:
    both = Interceptor(no_drops, shout, policy_version="3")
    assert both.points == {InterceptionPoint.PRE_TOOL_CALL, InterceptionPoint.OUTPUT}
    answers = ask_everywhere(TestClient(both))
    assert {name for name, answer in answers.items() if not answer.permits} == {"pre_tool_call"}
    assert answers["output"].target == {"content": "HI"}
    assert {answer.policy_version for answer in answers.values()} == {"3"}


@pytest.mark.parametrize("method", [False, True])
@pytest.mark.parametrize(
    "points", [frozenset(InterceptionPoint), frozenset({InterceptionPoint.OUTPUT, InterceptionPoint.INPUT})]
)
def test_one_function_answers_at_several_points_with_the_view_of_each(
    points: frozenset[InterceptionPoint], method: bool
) -> None:
    seen = []

    class Refuse(Interceptor):
        @at(*points)
        def judge(self, context: Any) -> Verdict:
            seen.append(type(context))
            return deny("refused")

    refuse = Refuse() if method else at(*points)(Refuse.judge.__get__(Refuse()))
    assert refuse.points == points
    answers = ask_everywhere(TestClient(refuse))
    assert {name for name, answer in answers.items() if not answer.permits} == set(points)
    assert set(seen) == {VIEWS[point] for point in points}
    with pytest.raises(NoPoint, match="two functions"):
        Interceptor(every_point(lambda _context: allow()), no_drops)


def test_decorated_methods_are_an_interceptor_and_are_inherited() -> None:
    class Base(Interceptor):
        refused = "drop_table"

        @pre_tool_call
        def judge(self, context: PreToolCallContext) -> Verdict:
            return deny("refused") if context.tool_call.name == self.refused else allow()

    class Child(Base):
        refused = "book"

    for kind in (Base, Child):
        client = TestClient(kind)
        assert not client.pre_tool_call(kind.refused).permits
        assert client.pre_tool_call("another").permits


def test_only_an_interceptor_of_coroutine_functions_alone_runs_on_the_loop() -> None:
    assert inspect.iscoroutinefunction(shout.intercept)
    assert inspect.iscoroutinefunction(Interceptor(shout).intercept)
    assert not inspect.iscoroutinefunction(no_drops.intercept)
    assert not inspect.iscoroutinefunction(Interceptor(shout, no_drops).intercept)


def test_two_functions_for_one_point_or_none_at_all_are_refused() -> None:
    with pytest.raises(NoPoint, match="two functions for pre_tool_call"):
        Interceptor(no_drops, no_drops)
    with pytest.raises(NoPoint, match="no function"):
        Interceptor()


@pytest.mark.parametrize("returned", [None, True, "allow", {"decision": "allow"}, ["a secret"], Verdict])
@pytest.mark.parametrize("in_task", [False, True])
def test_anything_but_a_verdict_denies_and_is_not_quoted(returned: object, in_task: bool) -> None:
    @pre_tool_call
    def sync(_context: PreToolCallContext) -> object:
        return returned

    @pre_tool_call
    async def coroutine(_context: PreToolCallContext) -> object:
        return returned

    answer = TestClient(coroutine if in_task else sync).pre_tool_call("book")
    assert not answer.permits
    assert answer.reason == "host_error:interceptor_failed"
    assert isinstance(answer.error, NotAVerdict)
    assert "secret" not in str(answer.error)


def test_a_sync_function_may_return_an_awaitable() -> None:
    async def later() -> Verdict:
        return deny("later")

    assert TestClient(pre_tool_call(lambda _context: later())).pre_tool_call("book").reason == "later"
    with_others = Interceptor(pre_tool_call(lambda _context: later()), shout)
    assert TestClient(with_others).pre_tool_call("book").reason == "later"
    assert TestClient(with_others).output("x").target == {"content": "X"}
