"""Threads that are used again and that exit never waits for."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a call came to: the JSON of what it returned, what it raised, or an awaitable to be awaited."""

    body: bytes = b""
    error: BaseException | None = None
    awaitable: Awaitable[object] | None = None


Job = Callable[[], Outcome]
OnEnd = Callable[[Outcome], None]


class Threads:
    """Runs jobs in daemon threads: one that hangs is lost and nothing else is.

    The executors of the standard library are joined when the interpreter exits, so one hung job would keep
    the process alive for ever. Everything here but the jobs runs on the loop, so nothing needs a lock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._numbers = itertools.count(1)
        self._idle: list[_Thread] = []
        self._closed = False

    def run(self, job: Job, on_end: OnEnd) -> None:
        """Run *job*, which never raises, in a thread and hand its outcome to *on_end* on the loop."""
        thread = self._idle.pop() if self._idle else self._start()
        thread.jobs.put((job, on_end))

    def close(self) -> None:
        """Let the idle threads end, and each other one when its job does."""
        self._closed = True
        while self._idle:
            self._idle.pop().jobs.put(None)

    def _start(self) -> _Thread:
        thread = _Thread(f"{self._name} {next(self._numbers)}", self._loop, self._end)
        thread.start()
        return thread

    def _end(self, thread: _Thread, on_end: OnEnd, outcome: Outcome) -> None:
        if self._closed:
            thread.jobs.put(None)
        else:
            self._idle.append(thread)
        on_end(outcome)


class _Thread(threading.Thread):
    def __init__(
        self, name: str, loop: asyncio.AbstractEventLoop, end: Callable[[_Thread, OnEnd, Outcome], None]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[tuple[Job, OnEnd] | None] = queue.SimpleQueue()
        self._loop = loop
        self._end = end

    def run(self) -> None:
        while (work := self.jobs.get()) is not None:
            job, on_end = work
            outcome = job()
            try:
                self._loop.call_soon_threadsafe(self._end, self, on_end, outcome)
            except RuntimeError:
                # The loop is closed: whoever waited for this is gone, and so is the need for this thread.
                return
            del work, job, on_end, outcome
