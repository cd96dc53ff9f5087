"""What the emissions of an agent came to, whether it runs in this process or in another one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from types import TracebackType
from typing import NamedTuple, Self

from agent_hooks import AgentContextBuilder, InterceptionRecord

import hookbus
from hookbus_client import BusEmitter
from tests.client.scripted import until

ALLOW = "allow"
#: Between two emissions; only the load depends on it.
PACE_S = 0.004
#: What a busy machine may add to a deadline that the agent's own loop keeps.
SLACK_S = 1.0
#: An agent is back when this many emissions in a row were permitted.
IN_A_ROW = 20
#: For `until`, which looks every two milliseconds: long enough that only a hang reaches it.
PATIENCE = 8000


class Emission(NamedTuple):
    """One emission, on the machine's monotonic clock, which all of its processes share."""

    began_s: float
    ended_s: float
    #: ``allow``, or the class of the failure that denied it.
    came_to: str

    @property
    def took_s(self) -> float:
        return self.ended_s - self.began_s


def came_to(record: InterceptionRecord) -> str:
    """Return ``allow``, or the class of failure that *record* was denied with."""
    if record.proceeds:
        return ALLOW
    return (record.verdict.message or "").partition(":")[0]


class Emissions:
    """Emissions of one agent in order, each bound to end within ``timeout_s`` seconds."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.all: list[Emission] = []

    async def allowed(self, *, since_s: float) -> float:
        """Return the instant, at or after *since_s*, from which emissions are permitted again and again."""
        await until(lambda: self._row(since_s) is not None, attempts=PATIENCE)
        began_s = self._row(since_s)
        assert began_s is not None
        return began_s

    async def denied(self, *, since_s: float, times: int = 1) -> None:
        """Return once *times* emissions that began at or after *since_s* were denied."""
        await until(
            lambda: sum(e.came_to != ALLOW for e in self.all if e.began_s >= since_s) >= times, attempts=PATIENCE
        )

    def between(self, began_s: float, ended_s: float) -> Counter[str]:
        """Return what the emissions came to that ran within this time."""
        return Counter(e.came_to for e in self.all if began_s <= e.began_s and e.ended_s <= ended_s)

    @property
    def latest_s(self) -> float:
        """How far the latest of all emissions outlived its deadline, in seconds; negative if none did."""
        return max(emission.took_s for emission in self.all) - self.timeout_s

    def _row(self, since_s: float) -> float | None:
        recent = [emission for emission in self.all[-2 * IN_A_ROW :] if emission.began_s >= since_s]
        row = recent[-IN_A_ROW:]
        if len(row) < IN_A_ROW or any(emission.came_to != ALLOW for emission in row):
            return None
        # The row may have begun before what was looked at.
        first = row[0].began_s
        for emission in reversed(self.all):
            if emission.came_to != ALLOW or emission.began_s < since_s:
                break
            first = emission.began_s
        return first


class Agent(Emissions):
    """Emits tool calls over *bus*, one after the other, for as long as the block lasts."""

    def __init__(self, bus: hookbus.Connection, *, timeout_s: float = 0.5) -> None:
        super().__init__(timeout_s)
        self.bus = bus
        self._builder = AgentContextBuilder(agent_id="bot", framework="test", session_id="s")
        self._emitter = BusEmitter(timeout=timeout_s).register(bus.interceptor("policy"))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._emit_on())
        await self.allowed(since_s=0)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def emit(self, target: object = "x") -> Emission:
        """Emit once and note what it came to."""
        context = self._builder.pre_tool_call(call_id="c", name="t", args={"x": target})
        began_s = time.monotonic()
        record = await self._emitter.emit_unchecked(context)
        emission = Emission(began_s, time.monotonic(), came_to(record))
        self.all.append(emission)
        return emission

    async def _emit_on(self) -> None:
        while True:
            await self.emit()
            await asyncio.sleep(PACE_S)


async def main(url: str, config: str, timeout_s: float) -> None:
    """Emit for ever, as a process of its own, and write each emission as a line."""
    async with hookbus.connect(url, config=config) as bus:
        agent = Agent(bus, timeout_s=timeout_s)
        while True:
            emission = await agent.emit()
            print(*emission, flush=True)
            await asyncio.sleep(PACE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
