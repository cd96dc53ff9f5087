"""Emissions counted, so that a plan says when a fault begins and ends in emissions and not in seconds."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class Odometer:
    """Counts emissions; a fast machine and a slow one meet the same fault at the same count."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def advance(self) -> None:
        """Count one emission."""
        self.count += 1
        while self._waiting and self._waiting[0][0] <= self.count:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    async def reached(self, count: int) -> None:
        """Return once *count* emissions have ended."""
        if self.count < count:
            future = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (count, next(self._order), future))
            await future
