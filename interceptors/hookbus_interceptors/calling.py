"""How an interceptor is called: a coroutine function in a task, anything else in a thread.

An interceptor written for the SDK's emitter runs unchanged: sync or async, or sync and returning an awaitable.
What it returns is made JSON where it was called, so a slow or faulty ``to_wire`` is its own fault alone.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import Any, Final

from agent_hooks import ALLOW

from hookbus import codec
from hookbus_interceptors.current import question
from hookbus_interceptors.errors import NotAnInterceptor
from hookbus_interceptors.threads import OnEnd, Outcome, Threads

#: What nearly every answer is.
_BARE_ALLOW: Final = b'{"decision":"allow"}'

Context = dict[str, Any]
Intercept = Callable[[Context], object]


def instance_of(interceptor: object) -> object:
    """Return *interceptor*; a class stands for one object of it, made without arguments.

    Raises :class:`NotAnInterceptor`.
    """
    if not inspect.isclass(interceptor):
        return interceptor
    name = interceptor.__qualname__
    if not callable(getattr(interceptor, "intercept", None)):
        raise NotAnInterceptor(name, "the class has no method intercept")
    try:
        inspect.signature(interceptor).bind()
    except TypeError:
        file = hasattr(interceptor, "from_config")
        why = "the class takes a configuration, --interceptor-config FILE" if file else "the class takes arguments"
        raise NotAnInterceptor(name, why) from None
    except ValueError:
        pass  # a class without a signature to read says for itself what it takes
    made: object = interceptor()
    return made


def intercept_of(interceptor: object) -> Intercept:
    """Return what is to be called with a context: the object's ``intercept``, or the object itself.

    Raises :class:`NotAnInterceptor`.
    """
    name = getattr(interceptor, "__qualname__", type(interceptor).__qualname__)
    method = getattr(interceptor, "intercept", None)
    if callable(method):
        return method  # type: ignore[no-any-return]  # whatever it returns is judged when it has returned
    if callable(interceptor):
        return interceptor
    raise NotAnInterceptor(name, "it has no method intercept and cannot be called")


class Call:
    """One call of the interceptor; its ``on_end`` is called once, on the loop, whenever it really ends."""

    def __init__(self, on_end: OnEnd) -> None:
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        #: What a thread returned to be awaited.
        self.returned: Any = None
        self._abandoned = False
        self._on_end = on_end

    def abandon(self) -> None:
        """Wait for this call no more: a coroutine is cancelled, a thread is left to itself."""
        self._abandoned = True
        if self.task is not None:
            self.task.cancel()

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for this call any more."""
        return self._abandoned

    def end(self, outcome: Outcome) -> None:
        """Note that the call has ended, and tell."""
        self.ended = True
        self.task = None
        self._on_end(outcome)

    def end_of_task(self, _task: asyncio.Task[None]) -> None:
        """Note that the call's task is done; one that is cancelled before its first step has no outcome."""
        if not self.ended:
            self._close_returned()
            self.end(Outcome(error=asyncio.CancelledError()))

    async def await_(self, begin: Callable[[], Any]) -> None:
        """Await what *begin* returns, in the call's task, and end."""
        try:
            _check_time()
            outcome = Outcome(_encode(await begin()))
        except BaseException as error:  # noqa: BLE001  # a cancellation, too, ends the call and nothing else
            outcome = Outcome(error=error)
        # Here and not in the task's callback, which runs one turn of the loop later.
        self._close_returned()
        self.end(outcome)

    def _close_returned(self) -> None:
        # It may never have been awaited, where the question expired just then. A finished one does not mind.
        if inspect.iscoroutine(self.returned):
            self.returned.close()


class Calling:
    """Calls one interceptor, each time with variables (:mod:`contextvars`) of the call's own."""

    def __init__(self, intercept: Intercept, loop: asyncio.AbstractEventLoop, threads: Threads) -> None:
        self._intercept = intercept
        self._loop = loop
        self._threads = threads
        self._in_task = inspect.iscoroutinefunction(intercept) or inspect.iscoroutinefunction(
            getattr(intercept, "__call__", None)  # noqa: B004  # an object whose __call__ is a coroutine function
        )

    def start(self, context: Context, variables: contextvars.Context, on_end: OnEnd) -> Call:
        """Start a call with *context*. Never waits and never raises."""
        call = Call(on_end)
        if self._in_task:
            self._run_task(call, lambda: self._intercept(context), variables)
            return call

        def ended(outcome: Outcome) -> None:
            if outcome.awaitable is None:
                call.end(outcome)
            elif call.abandoned:
                if inspect.iscoroutine(outcome.awaitable):
                    outcome.awaitable.close()
                call.end(outcome)
            else:
                call.returned = outcome.awaitable
                self._run_task(call, lambda: outcome.awaitable, variables)

        self._threads.run(lambda: variables.run(_call, self._intercept, context), ended)
        return call

    def _run_task(self, call: Call, begin: Callable[[], Any], variables: contextvars.Context) -> None:
        # The call holds the task, as a task group would not do: a group waits for every task it owns, and
        # one that ignores its cancellation would hold the whole worker.
        call.task = self._loop.create_task(call.await_(begin), context=variables)
        call.task.add_done_callback(call.end_of_task)


def _call(intercept: Intercept, context: Context) -> Outcome:
    try:
        _check_time()
        value = intercept(context)
        return Outcome(awaitable=value) if inspect.isawaitable(value) else Outcome(_encode(value))
    except BaseException as error:  # noqa: BLE001  # not even sys.exit() in an interceptor ends the worker
        return Outcome(error=error)


def _check_time() -> None:
    # A coroutine that held the loop, or a slow start of a thread, may have used up the time between the
    # question's intake and this moment: work on an expired question is never started.
    if question().remaining_s <= 0:
        raise TimeoutError


def _encode(value: Any) -> bytes:
    """Return what an interceptor returned as JSON; whether it is a verdict is for the agent's gate to say.

    Raises :class:`OutOfDomain` for what is not JSON, which AGENT-HOOKS-0.1 §11 calls a failed interceptor, and
    whatever ``to_wire`` raises.
    """
    if value is ALLOW:
        return _BARE_ALLOW
    to_wire = getattr(value, "to_wire", None)
    document = to_wire() if callable(to_wire) else value
    return codec.encode(document, codec.survey(document))
