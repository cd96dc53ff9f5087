"""When a question may have arrived: earlier than it was read, if the loop stood still in between.

A process that was stopped, starved, or blocked by a coroutine that does not await finds its questions in the
socket, and each looks as if it had come just now. So the loop is watched: a tick that is overdue is a stall, and
until the server's backlog has been read (a round trip tells) every question may have come as early as the last
tick before it. (Contract, section 2.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

#: How often the loop shows that it runs while questions come. A tick that is overdue by as much is a stall.
TICK_S: Final = 0.025
#: The same once no question has come for a while: a worker that idles should cost next to nothing. The first
#: question after that may have waited for this long unseen.
IDLE_TICK_S: Final = 0.25
#: How many ticks without a question make a worker idle.
_IDLE_AFTER: Final = 40


class Stalls:
    """Watches the loop it is started on. ``catch_up`` returns when all that the server had sent has been read."""

    def __init__(self, loop: asyncio.AbstractEventLoop, catch_up: Callable[[], Awaitable[object]]) -> None:
        self._loop = loop
        self._catch_up = catch_up
        self._ticked = loop.time()
        self._due = self._ticked + TICK_S
        self._began: float | None = None
        self._seen = 0
        self._catching_up: asyncio.Task[None] | None = None
        #: Ticks since the last question.
        self._unasked = 0
        self._next = loop.call_at(self._due, self._tick)

    def close(self) -> None:
        """Stop watching."""
        self._next.cancel()
        if self._catching_up is not None:
            self._catching_up.cancel()

    def earliest_arrival(self) -> float:
        """Return the loop time before which a question that is read now cannot have arrived."""
        now = self._loop.time()
        self._look(now)
        if self._unasked > _IDLE_AFTER:
            self._next.cancel()
            self._tick_after(now, TICK_S)
        self._unasked = 0
        return now if self._began is None else self._began

    def _tick(self) -> None:
        now = self._loop.time()
        self._look(now)
        self._unasked += 1
        self._tick_after(now, TICK_S if self._unasked <= _IDLE_AFTER else IDLE_TICK_S)

    def _tick_after(self, now: float, wait_s: float) -> None:
        self._ticked = now
        self._due = now + wait_s
        self._next = self._loop.call_at(self._due, self._tick)

    def _look(self, now: float) -> None:
        if now - self._due <= TICK_S:
            return
        self._seen += 1
        if self._began is None:
            self._began = self._ticked
        # Until the next tick this is known.
        self._ticked = self._due = now
        if self._catching_up is None:
            self._catching_up = self._loop.create_task(self._read_backlog(), name="hookbus backlog")

    async def _read_backlog(self) -> None:
        seen = 0
        while seen != self._seen:
            # Another stall meanwhile: what was read after this round trip may have waited through that one.
            seen = self._seen
            await self._catch_up()
        self._began = None
        self._catching_up = None
