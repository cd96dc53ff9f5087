"""The five plain hooks, each deployed as an interceptor from a plain function with a decorator.

    @before_tool_execution
    def policy(call):
        return {"authorize": call["name"] != "drop_table", "result": "Ask a person first."}

``hookbus worker run module:policy --name policy`` runs it; the same undecorated function is a local
hook of an agent. A hook answers only at its own points and allows every other; bind it there. What
it raises, and what it returns against its contract, becomes a denying failure of the interceptor
(§6.3), never an allow.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agent_hooks import AgentContext, Decision, InterceptionPoint, Transform, Verdict

Function = Callable[..., Any]
#: Takes what the hook returned and what it may have replaced; gives the verdict.
Judge = Callable[[Any, Any], Verdict]

REFUSED = "The call was refused."


class HookContractError(TypeError):
    """A hook returned something other than it promises. Holds type names, never what was returned."""

    def __init__(self, hook: str, expected: str, got: str) -> None:
        super().__init__(f"{hook} must return {expected}, not {got}")


@dataclass(frozen=True, slots=True)
class _Hook:
    """How one of the five reads a context, and how what it returns becomes a verdict."""

    #: The hook's arguments, or None when this context is not for it.
    arguments: Callable[[AgentContext], tuple[Any, ...] | None]
    judge: Judge


class HookInterceptor:
    """A plain hook with ``intercept(context)``; calling it calls the function, unchanged.

    ``points`` are where it belongs. ``intercept`` is a coroutine function exactly when the hook is
    one, so a worker runs a sync hook in a thread.
    """

    def __init__(self, function: Function, points: frozenset[InterceptionPoint], hook: _Hook) -> None:
        functools.update_wrapper(self, function)
        self.points = points
        self._function = function
        self._hook = hook
        self.intercept: Callable[[AgentContext], Any] = (
            self._intercept_async if inspect.iscoroutinefunction(function) else self._intercept
        )

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def _intercept(self, context: AgentContext) -> Verdict | Awaitable[Verdict]:
        if context["interception_point"] not in {point.value for point in self.points}:
            return Verdict.allow()
        arguments = self._hook.arguments(context)
        if arguments is None:
            return Verdict.allow()
        returned = self._function(*copy.deepcopy(arguments))
        if inspect.isawaitable(returned):
            return self._judge_later(returned, context)
        return self._hook.judge(returned, context["target"])

    async def _judge_later(self, returned: Awaitable[Any], context: AgentContext) -> Verdict:
        return self._hook.judge(await returned, context["target"])

    async def _intercept_async(self, context: AgentContext) -> Verdict:
        verdict = self._intercept(context)
        return await verdict if inspect.isawaitable(verdict) else verdict


def before_turn(function: Function) -> HookInterceptor:
    """Deploy ``before_turn(turn, messages)`` at ``pre_model_call``. It only sees; raising denies."""
    hook = _Hook(lambda context: (_turn(context), context["messages"]), _allow)
    return HookInterceptor(function, frozenset({InterceptionPoint.PRE_MODEL_CALL}), hook)


def before_provider_call(function: Function) -> HookInterceptor:
    """Deploy ``before_provider_call(messages)`` at ``pre_model_call``: what it returns is sent."""
    hook = _Hook(lambda context: (context["messages"],), _send)
    return HookInterceptor(function, frozenset({InterceptionPoint.PRE_MODEL_CALL}), hook)


def before_tool_execution(function: Function) -> HookInterceptor:
    """Deploy ``before_tool_execution(call)`` at ``pre_tool_call``.

    ``{"authorize": False, "result": text}`` denies, with the optional ``reason`` as the verdict's
    and *text* as its message, which an agent lets the model read.
    """
    hook = _Hook(lambda context: (context["tool_call"],), _authorize)
    return HookInterceptor(function, frozenset({InterceptionPoint.PRE_TOOL_CALL}), hook)


def after_tool_execution(function: Function) -> HookInterceptor:
    """Deploy ``after_tool_execution(call, result)`` at ``post_tool_call``: what it returns is read.

    A call that policy denied has no ``post_tool_call`` (§6.2), so this does not see it; one that a
    local hook refused has one.
    """
    hook = _Hook(lambda context: (context["tool_call"], context["tool_result"]), _read)
    return HookInterceptor(function, frozenset({InterceptionPoint.POST_TOOL_CALL}), hook)


def after_turn(function: Function) -> HookInterceptor:
    """Deploy ``after_turn(turn, message)`` where a turn is known to be over.

    That is ``output`` for the final turn, and for any other the next ``pre_model_call``, whose last
    messages are the results of the turn's tools. It only sees; raising denies.
    """
    points = frozenset({InterceptionPoint.PRE_MODEL_CALL, InterceptionPoint.OUTPUT})
    return HookInterceptor(function, points, _Hook(_ended_turn, _allow))


def _turn(context: AgentContext) -> int:
    return int(context["session"].get("turn", 0))


def _ended_turn(context: AgentContext) -> tuple[int, dict[str, Any]] | None:
    if context["interception_point"] == InterceptionPoint.OUTPUT.value:
        return _turn(context), {"role": "assistant", "content": context["output"]["content"]}
    messages = context["messages"]
    if not messages or messages[-1]["role"] != "tool":
        return None
    said = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    return None if said is None else (_turn(context) - 1, said)


def _allow(returned: Any, target: Any) -> Verdict:
    return Verdict.allow()


def _send(returned: Any, target: Any) -> Verdict:
    if not isinstance(returned, list) or not all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in returned
    ):
        raise HookContractError("before_provider_call", "a list of messages", type(returned).__name__)
    return _replace(returned, target)


def _authorize(returned: Any, target: Any) -> Verdict:
    if not isinstance(returned, dict) or not isinstance(returned.get("authorize"), bool):
        expected = '{"authorize": bool, "result": str}'
        raise HookContractError("before_tool_execution", expected, type(returned).__name__)
    if returned["authorize"]:
        return Verdict.allow()
    reason, text = returned.get("reason"), returned.get("result")
    return Verdict.deny(
        reason=reason if isinstance(reason, str) else "refused",
        message=text if isinstance(text, str) else REFUSED,
    )


def _read(returned: Any, target: Any) -> Verdict:
    if returned is None:
        # A redacting hook without its return statement must not let the original through.
        raise HookContractError("after_tool_execution", "what the model reads", "None")
    return _replace(returned, target)


def _replace(returned: Any, target: Any) -> Verdict:
    # No transform without a change: in a parallel profile two of them conflict (§7.5).
    if returned == target:
        return Verdict.allow()
    return Verdict(decision=Decision.TRANSFORM, transform=Transform("$target", returned))
