"""When this process's loop stood still: what no deadline can be held to."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_TICK_S: Final = 0.005
_KEPT_S: Final = 30.0


class Ticker:
    """Ticks on the loop; a tick that comes late is a stall. ``on_tick(now)`` is called at every tick."""

    def __init__(self, on_tick: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_tick = on_tick
        self._stalls: deque[tuple[float, float]] = deque()
        #: The longest stall so far, in seconds.
        self.longest_s = 0.0
        self._due = self._loop.time() + _TICK_S
        self._next = self._loop.call_at(self._due, self._tick)

    def close(self) -> None:
        """Stop ticking."""
        self._next.cancel()

    def stalled_s(self, begin: float, end: float) -> float:
        """Return for how long the loop stood still between two instants, both before the last tick."""
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self._stalls)

    def _tick(self) -> None:
        now = self._loop.time()
        self.longest_s = max(self.longest_s, now - self._due)
        self._stalls.append((self._due, now))
        while self._stalls[0][1] < now - _KEPT_S:
            self._stalls.popleft()
        self._on_tick(now)
        self._due = now + _TICK_S
        self._next = self._loop.call_at(self._due, self._tick)
