"""Where a candidate lives: in a thread and on an event loop of its own, so that it never holds the worker's.

Its coroutines run on that loop, its other functions in threads beside it, its ``lifespan`` too, in every stage: a
client that it opened in shadow is there when it decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import weakref
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple

import msgspec

import hookbus
from hookbus import codec
from hookbus.codec import Domain, Json
from hookbus.envelope import type_name
from hookbus_interceptors.calling import Call, Calling, intercept_of
from hookbus_interceptors.current import CURRENT, POLICY, question
from hookbus_interceptors.shadow.errors import CandidateBusy, CandidateMissesPoint, CandidateNotOpen
from hookbus_interceptors.threads import Outcome, Threads

logger = logging.getLogger("hookbus.shadow")

Lifespan = Callable[[hookbus.Connection], AbstractAsyncContextManager[object]]

#: A context was decoded from JSON: there is nothing to look for in it.
_DECODED: Final = Domain(fractions=True, big_integers=True, astral_keys=True, subclassed=False)


class Ended(NamedTuple):
    """How a call of the candidate ended."""

    outcome: Outcome
    #: What it told :func:`decided_by`, or what stood there before.
    policy: str | None = None
    #: Whether it was given up; there is no outcome then.
    late: bool = False


Tell = Callable[[Ended], None]


class Aside:
    """Calls *candidate*, at most *concurrency* times at once; a call that hangs keeps its place.

    At any other point than its *points*, where it has some, the call is a :class:`CandidateMissesPoint`.
    Ends when nobody refers to it any more: coroutines are cancelled then, and threads left to themselves.
    """

    def __init__(self, candidate: object, points: Collection[str], concurrency: int) -> None:
        self._points = points
        self._concurrency = concurrency
        self._places = threading.Semaphore(concurrency)
        self._loop = loop = asyncio.new_event_loop()
        self._threads = Threads(loop, "candidate")
        self._calling = Calling(intercept_of(candidate), loop, self._threads)
        self._life = _Life(getattr(candidate, "lifespan", None), self._threads)
        # The thread does not refer to this object, which would live for ever then.
        arguments = (loop, self._life)
        threading.Thread(target=_run, args=arguments, name="hookbus candidate", daemon=True).start()
        weakref.finalize(self, _call_on, loop, self._life.end)

    def open(self, settings: hookbus.Settings, *, within_s: float) -> bool:
        """Enter the candidate's ``lifespan``, once; return whether it is open after at most ``within_s`` seconds.

        It gets a connection with *settings* that is never up: a candidate acts on nothing over the bus. Blocks.
        """
        _call_on(self._loop, self._life.begin, settings)
        self._life.settled.wait(within_s)
        return self._life.open.is_set()

    def soon(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call *function* on the candidate's loop. From any thread; never waits."""
        _call_on(self._loop, function, *arguments)

    def ask(self, context: dict[str, Json], *, deadline_s: float, tell: Tell) -> None:
        """Ask about a copy of *context*; *tell* is called once, on its loop, at ``deadline_s`` at last.

        From any thread, while a question is being answered. Never waits. Raises :class:`CandidateBusy`,
        :class:`CandidateNotOpen` and :class:`OutOfDomain`; *tell* is not called then, nor when the loop has ended.
        """
        if not self._life.open.is_set():
            raise CandidateNotOpen
        body = codec.encode(context, _DECODED)
        variables = contextvars.copy_context()
        variables.run(CURRENT.set, msgspec.structs.replace(question(), deadline_s=deadline_s))
        if not self._places.acquire(blocking=False):
            raise CandidateBusy(self._concurrency)
        self.soon(_Asked(self, variables, deadline_s, tell).begin, body)


class _Asked:
    """One call of the candidate; everything but its making is on the candidate's loop."""

    call: Call
    timer: asyncio.TimerHandle

    def __init__(self, aside: Aside, variables: contextvars.Context, deadline_s: float, tell: Tell) -> None:
        self._aside = aside
        self._variables = variables
        self._deadline_s = deadline_s
        self._tell: Tell | None = tell

    def begin(self, body: bytes) -> None:
        # Loops count by time.monotonic(), and so do questions.
        self.timer = self._aside._loop.call_at(self._deadline_s, self._give_up)
        context, points = codec.decode_context(body), self._aside._points
        if points and context["interception_point"] not in points:
            return self._end(Outcome(error=CandidateMissesPoint(context["interception_point"])))
        self.call = self._aside._calling.start(context, self._variables, self._end)

    def _give_up(self) -> None:
        self._told(Ended(Outcome(), late=True))
        self.call.abandon()

    def _end(self, outcome: Outcome) -> None:
        self.timer.cancel()
        self._aside._places.release()
        # It may have held its loop past its deadline, so that the timer had no chance.
        late = self._aside._loop.time() >= self._deadline_s
        self._told(Ended(outcome, self._variables.get(POLICY), late))

    def _told(self, ended: Ended) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(ended)


class _Life:
    """What the candidate's thread runs: its ``lifespan``, held open until the end."""

    def __init__(self, lifespan: Lifespan | None, threads: Threads) -> None:
        #: Whether calls may come.
        self.open = threading.Event()
        #: Whether it is known by now.
        self.settled = threading.Event()
        self._lifespan = lifespan
        self._threads = threads
        self._settings: hookbus.Settings | None = None
        self._begun = asyncio.Event()
        self._ended = asyncio.Event()
        if lifespan is None:
            self._opened()

    def begin(self, settings: hookbus.Settings) -> None:
        self._settings = settings
        self._begun.set()

    def end(self) -> None:
        self._ended.set()
        self._begun.set()

    async def run(self) -> None:
        try:
            if self._lifespan is not None:
                holding = asyncio.create_task(self._hold(self._lifespan))
                await asyncio.wait([holding])
                error = None if holding.cancelled() else holding.exception()
                if error is not None:
                    # Its message is left out: it may quote a secret.
                    logger.error("NOT OPEN: the candidate's lifespan raised %s", type_name(error))
            await self._ended.wait()
        finally:
            self.open.clear()
            self._threads.close()

    async def _hold(self, lifespan: Lifespan) -> None:
        await self._begun.wait()
        if self._settings is None or self._ended.is_set():
            return
        try:
            async with lifespan(hookbus.Connection(self._settings)):
                self._opened()
                await self._ended.wait()
        finally:
            self.open.clear()
            self.settled.set()

    def _opened(self) -> None:
        self.open.set()
        self.settled.set()


def _run(loop: asyncio.AbstractEventLoop, life: _Life) -> None:
    # What the candidate leaves behind on its loop may quote the payload; asyncio would log all of it.
    loop.set_exception_handler(_log_type)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(life.run())
    except (SystemExit, KeyboardInterrupt) as error:
        # The two that asyncio lets through.
        logger.error("ENDED: the candidate ended its loop with %s and is asked no more", type_name(error))


def _log_type(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    logger.warning("on the candidate's loop: %s", type_name(error) if error is not None else "a warning")


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: Any) -> None:
    # A loop that is closed has nothing left to do: it ended, or something on it ended it.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
