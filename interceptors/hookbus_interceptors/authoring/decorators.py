"""A decorated function for each interception point, alone or several as one interceptor.

    @pre_tool_call
    def no_drops(context):
        return deny("db:no-drops") if context.tool_call.name == "drop_table" else allow()

``hookbus worker run module:no_drops --name no-drops`` runs it. What a function raises, and anything but a verdict
that it returns, is a failure of the interceptor, which denies (§6.3).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from agent_hooks import ALLOW, InterceptionPoint, Verdict

from hookbus import HookbusError
from hookbus.codec import Json
from hookbus_interceptors.authoring.context_views import VIEWS

Raw = dict[str, Json]
Function = Callable[..., Any]


class NotAVerdict(HookbusError, TypeError):
    """A function returned something else than a verdict, or nothing at all. Holds type names only."""

    def __init__(self, function: str, got: str) -> None:
        super().__init__(f"{function} must return a verdict, such as allow() or deny(reason), not {got}")


class NoPoint(HookbusError, TypeError):
    """An interceptor has no function for any point, or two for the same one."""

    def __init__(self, interceptor: str, twice: InterceptionPoint | None = None) -> None:
        what = "no function for any point" if twice is None else f"two functions for {twice.value}"
        super().__init__(
            f"{interceptor} has {what}; give it one decorated function for each point that it answers at"
        )


class PointFunction:
    """A function that answers at its points and allows every other; calling it calls the function, unchanged.

    As an attribute of a class it binds like a method. ``intercept`` is a coroutine function exactly when the
    function is one, so a worker runs a sync one in a thread.
    """

    def __init__(self, function: Function, points: Iterable[InterceptionPoint]) -> None:
        functools.update_wrapper(self, function)
        self.points = frozenset(points)
        self._views = {point.value: VIEWS[point] for point in self.points}
        self.is_async = inspect.iscoroutinefunction(function)
        self._function = function
        if self.is_async:
            self.intercept = self._intercept_async  # type: ignore[method-assign]  # see the class

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._function(*arguments, **keywords)

    def __get__(self, owner: object | None, _type: type | None = None) -> PointFunction:
        return self if owner is None else PointFunction(self._function.__get__(owner), self.points)

    def intercept(self, context: Raw, /) -> Any:
        """Return the function's verdict, or an awaitable of it; allow at any other point."""
        view = self._views.get(context["interception_point"])
        if view is None:
            return ALLOW
        returned = self._function(view(context))
        return self._judge_later(returned) if inspect.isawaitable(returned) else self._judge(returned)

    async def _intercept_async(self, context: Raw, /) -> Verdict:
        view = self._views.get(context["interception_point"])
        return ALLOW if view is None else self._judge(await self._function(view(context)))

    async def _judge_later(self, returned: Awaitable[object]) -> Verdict:
        return self._judge(await returned)

    def _judge(self, returned: object) -> Verdict:
        if not isinstance(returned, Verdict):
            raise NotAVerdict(getattr(self._function, "__qualname__", "the function"), type(returned).__name__)
        return returned


class Interceptor:
    """Several decorated functions as one interceptor, at most one for each point.

    The functions are those given and the class's own methods that are decorated. ``points`` are theirs; every
    other point is allowed. Raises :class:`NoPoint`.
    """

    #: Which version of the policy answers, as ``Hb-Policy`` shows it; None says nothing.
    policy_version: str | None = None

    def __init__(self, *functions: PointFunction, policy_version: str | None = None) -> None:
        if policy_version is not None:
            self.policy_version = policy_version
        self._functions: dict[str, PointFunction] = {}
        for function in [*functions, *_methods(self)]:
            for point in function.points:
                if point.value in self._functions:
                    raise NoPoint(type(self).__qualname__, twice=point)
                self._functions[point.value] = function
        if not self._functions:
            raise NoPoint(type(self).__qualname__)
        self.points = frozenset(map(InterceptionPoint, self._functions))
        if all(function.is_async for function in self._functions.values()):
            # Only then: a function that is not would hold the worker's loop.
            self.intercept = self._intercept_async  # type: ignore[method-assign]  # a worker looks at which it is

    def intercept(self, context: Raw, /) -> Any:
        """Return the verdict of the function for the context's point, or an awaitable of it; allow without one."""
        function = self._functions.get(context["interception_point"])
        return ALLOW if function is None else function.intercept(context)

    async def _intercept_async(self, context: Raw, /) -> Verdict:
        function = self._functions.get(context["interception_point"])
        return ALLOW if function is None else await function._intercept_async(context)


def _methods(interceptor: object) -> list[PointFunction]:
    names = [name for name in dir(type(interceptor)) if not name.startswith("__")]
    return [
        getattr(interceptor, name)
        for name in names
        if isinstance(inspect.getattr_static(interceptor, name), PointFunction)
    ]


def at(*points: InterceptionPoint) -> Callable[[Function], PointFunction]:
    """Have a function answer at each of *points*; it takes the view of the context's own point."""

    def decorate(function: Function) -> PointFunction:
        return PointFunction(function, points)

    named = ", ".join(f"``{point.value}``" for point in points)
    decorate.__doc__ = f"Have the function answer at {named}; it takes the view of such a context."
    return decorate


agent_startup: Final = at(InterceptionPoint.AGENT_STARTUP)
input: Final = at(InterceptionPoint.INPUT)
pre_model_call: Final = at(InterceptionPoint.PRE_MODEL_CALL)
post_model_call: Final = at(InterceptionPoint.POST_MODEL_CALL)
pre_tool_call: Final = at(InterceptionPoint.PRE_TOOL_CALL)
post_tool_call: Final = at(InterceptionPoint.POST_TOOL_CALL)
output: Final = at(InterceptionPoint.OUTPUT)
agent_shutdown: Final = at(InterceptionPoint.AGENT_SHUTDOWN)
every_point: Final = at(*InterceptionPoint)
