"""An interceptor of known service time that counts what it evaluates, for a worker of ``hookbus worker run``.

A call tells, by the machine's monotonic clock, until when its agent waits. At its exit the process writes what it
counted, whatever its worker thought of deadlines.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import time
from typing import Any, Final, NamedTuple

SERVICE_S: Final = 0.16
#: Where the context says until when its agent waits.
UNTIL: Final = "until_s"

#: What a call may begin after its agent's deadline and not count as too late.
GRACE_S: Final = 0.05
_LINE: Final = re.compile(r"evaluated (\d+), of them (\d+) too late, in (\d+) us each")


class Count(NamedTuple):
    """What was evaluated, how much of it when the agent had denied already, and how long each took."""

    evaluated: int = 0
    too_late: int = 0
    service_us: int = 0


class Metered:
    """Allows, after :data:`SERVICE_S`."""

    def __init__(self) -> None:
        self._evaluated = 0
        self._too_late = 0
        self._spent_s = 0.0
        atexit.register(self._tell)

    async def intercept(self, context: dict[str, Any], /) -> dict[str, Any]:
        """Count the call, and allow it."""
        began_s = time.monotonic()
        self._evaluated += 1
        # What lies between the worker's check and this line, on a machine that does other things too, is not a
        # question that was taken although it had expired.
        self._too_late += began_s > context["target"][UNTIL] + GRACE_S
        try:
            await asyncio.sleep(SERVICE_S)
        finally:
            self._spent_s += time.monotonic() - began_s
        return {"decision": "allow"}

    def _tell(self) -> None:
        each_us = round(self._spent_s / max(1, self._evaluated) * 1e6)
        print(f"evaluated {self._evaluated}, of them {self._too_late} too late, in {each_us} us each", flush=True)


def read_count(output: list[str]) -> Count:
    """Return what a process that has ended counted, by what it wrote."""
    found = _LINE.search("".join(output))
    if found is None:
        raise ValueError("the process has not told its count")
    return Count(*map(int, found.groups()))
