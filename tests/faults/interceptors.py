"""Interceptors of the fault tests, some in a process whose clock is wrong."""

from __future__ import annotations

import time
from typing import Any

Context = dict[str, Any]

HOUR_S = 3600
#: What a call asks for, and how long it then holds the loop.
STALL = "stall"
STALLS_FOR_S = 0.6


def shift_clock(by_s: int) -> None:
    """Make this process's wall clock wrong by *by_s* seconds; its monotonic clock stays right."""
    time_ns, seconds = time.time_ns, time.time
    time.time_ns = lambda: time_ns() + by_s * 1_000_000_000
    time.time = lambda: seconds() + by_s


class Allow:
    """Allows everything."""

    async def intercept(self, _context: Context, /) -> Context:
        return {"decision": "allow"}


class AllowAnHourAhead(Allow):
    """Allows everything, by a clock that is an hour ahead."""

    def __init__(self) -> None:
        shift_clock(HOUR_S)


class AllowAnHourBehind(Allow):
    """Allows everything, by a clock that is an hour behind."""

    def __init__(self) -> None:
        shift_clock(-HOUR_S)


class StallAnHourBehind(AllowAnHourBehind):
    """Allows and says so; holds the loop where the call asks for it. By its clock nothing ever expires."""

    async def intercept(self, context: Context, /) -> Context:
        wanted = context["target"]["x"]
        print(f"evaluated {wanted}", flush=True)
        if wanted == STALL:
            time.sleep(STALLS_FOR_S)  # noqa: ASYNC251  # the fault of this interceptor
        return {"decision": "allow"}
