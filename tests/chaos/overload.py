"""Overload: what a group of two workers still answers in time when agents ask three times as much as it can.

python -m tests.chaos.overload
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from agent_hooks import AgentContextBuilder, InterceptionRecord
from rich.console import Console
from rich.table import Table

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.chaos.document import put_section
from tests.chaos.metered import SERVICE_S, UNTIL, Count, read_count
from tests.worker.processes import WorkerProcess

CONCURRENCY: Final = 16
WORKERS: Final = 2
#: What the slots allow if no time is lost between one call and the next.
NOMINAL_PER_S: Final = WORKERS * CONCURRENCY / SERVICE_S
DEADLINE_S: Final = 0.5
#: The share of capacity that must still be answered in time.
WANTED: Final = 0.9


class Agent:
    """Asks ``metered``, as fast as it is told to, and keeps what became of each call."""

    def __init__(self, bus: hookbus.Connection, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._emitter = BusEmitter(timeout=deadline_s).register(bus.interceptor("metered"))
        self._builder = AgentContextBuilder(agent_id="caller", framework="chaos", session_id="overload")
        self.classes: Counter[str] = Counter()
        #: How long each busy answer took, in seconds.
        self.busy_s: list[float] = []

    async def call(self) -> InterceptionRecord:
        """Emit one call, and count what it came to."""
        began_s = time.monotonic()
        args = {UNTIL: began_s + self._deadline_s}
        record = await self._emitter.emit_unchecked(self._builder.pre_tool_call(call_id="c", name="t", args=args))
        self._emitter.take_records()
        label = "in time" if record.proceeds else (record.verdict.message or "").partition(":")[0]
        self.classes[label] += 1
        if label == "busy":
            self.busy_s.append(time.monotonic() - began_s)
        return record

    async def offer(self, per_s: float, for_s: float, chance: random.Random) -> None:
        """Begin so many calls a second, at random instants, whatever becomes of those before."""
        clock = asyncio.get_running_loop().time
        next_s = clock()
        until_s = next_s + for_s
        async with asyncio.TaskGroup() as calls:
            while next_s < until_s:
                next_s += chance.expovariate(per_s)
                await asyncio.sleep(max(0.0, next_s - clock()))
                calls.create_task(self.call())


class Phase(msgspec.Struct, frozen=True):
    """What one offered load came to."""

    name: str
    offered_per_s: float
    goodput_per_s: float
    classes: dict[str, int]
    busy_median_ms: float
    busy_p99_ms: float
    evaluated: int
    too_late: int
    service_ms: float

    @property
    def capacity_per_s(self) -> float:
        """What the slots could have answered at the service time measured here."""
        return WORKERS * CONCURRENCY / (self.service_ms / 1000)


@contextmanager
def group(url: str, *, workers: int = WORKERS, concurrency: int = CONCURRENCY) -> Iterator[list[WorkerProcess]]:
    """Run *workers* processes that answer for ``metered``."""
    with ExitStack() as stack:
        options = ("--concurrency", str(concurrency))
        made = [WorkerProcess("tests.chaos.metered:Metered", "metered", *options, url=url) for _ in range(workers)]
        yield [stack.enter_context(worker) for worker in made]


def counts(workers: Sequence[WorkerProcess]) -> list[Count]:
    """Drain *workers* and return what each has counted."""
    for worker in workers:
        worker.signal(signal.SIGTERM)
    for worker in workers:
        worker.wait()
    return [read_count(worker.output) for worker in workers]


@asynccontextmanager
async def agent(url: str, **more: Any) -> AsyncIterator[Agent]:
    """Connect an agent."""
    async with hookbus.connect(url) as bus:
        yield Agent(bus, **more)


async def measure(url: str, name: str, times: float, for_s: float, *, stop: bool = False) -> Phase:
    """Offer so many *times* the nominal capacity to a fresh group; *stop* stops each worker once, for a while."""
    with group(url) as workers:
        async with agent(url) as caller:
            began_s = time.monotonic()
            async with asyncio.TaskGroup() as offering:
                offering.create_task(caller.offer(NOMINAL_PER_S * times, for_s, random.Random(name)))
                for worker in workers if stop else ():
                    await asyncio.sleep(for_s / (WORKERS + 1))
                    worker.signal(signal.SIGSTOP)
                    await asyncio.sleep(2 * DEADLINE_S)
                    worker.signal(signal.SIGCONT)
            took_s = time.monotonic() - began_s
        told = await asyncio.to_thread(counts, workers)
    evaluated = sum(count.evaluated for count in told)
    spent_us = sum(count.evaluated * count.service_us for count in told)
    busy = sorted(caller.busy_s) or [0.0]
    return Phase(
        name,
        offered_per_s=round(caller.classes.total() / took_s, 1),
        goodput_per_s=round(caller.classes["in time"] / took_s, 1),
        classes=dict(caller.classes.most_common()),
        busy_median_ms=round(busy[len(busy) // 2] * 1000, 2),
        busy_p99_ms=round(busy[len(busy) * 99 // 100] * 1000, 2),
        evaluated=evaluated,
        too_late=sum(count.too_late for count in told),
        service_ms=round(spent_us / max(1, evaluated) / 1000, 2),
    )


async def run(for_s: float) -> list[Phase]:
    """Measure the group at its capacity, at three times it, and at that while workers stop and go on."""
    with EmbeddedServer() as server:
        return [
            await measure(server.url, "1 × capacity", 1, for_s),
            await measure(server.url, "3 × capacity", 3, for_s),
            await measure(server.url, "3 ×, each worker stopped once", 3, for_s, stop=True),
        ]


HEADER: Final = ("load", "offered", "in time", "of capacity", "busy after, median / p99", "outcomes", "too late")


def rows(phases: Sequence[Phase]) -> list[tuple[str, ...]]:
    """Return one row for each phase; capacity is that of the slots at the service time of the first phase."""
    capacity = phases[0].capacity_per_s
    return [
        (
            phase.name,
            f"{phase.offered_per_s:,.0f}/s",
            f"{phase.goodput_per_s:,.0f}/s",
            f"{phase.goodput_per_s / capacity:.0%}",
            f"{phase.busy_median_ms:.1f} / {phase.busy_p99_ms:.1f} ms",
            ", ".join(f"{label} {count:,}" for label, count in phase.classes.items()),
            f"{phase.too_late} of {phase.evaluated:,}",
        )
        for phase in phases
    ]


def shortcomings(phases: Sequence[Phase]) -> list[str]:
    """Return what does not hold; empty when all does."""
    capacity, overloaded = phases[0].capacity_per_s, phases[1].goodput_per_s
    found = [f"{phase.name}: {phase.too_late} evaluated too late" for phase in phases if phase.too_late]
    if overloaded < WANTED * capacity:
        found.append(f"{overloaded:.0f}/s in time at three times a capacity of {capacity:.0f}/s")
    return found


def main(
    seconds: Annotated[float, typer.Option(min=1, help="For each load.")] = 20.0,
    docs: Annotated[Path | None, typer.Option(help="Write the table to chaos.md of this folder.")] = None,
) -> None:
    """Measure a worker group at and above its capacity; fail when too little is answered or anything too late."""
    logging.getLogger("hookbus").setLevel(logging.ERROR)
    phases = asyncio.run(run(seconds))
    table = Table(*HEADER, title=f"{WORKERS} workers, {CONCURRENCY} at a time, {SERVICE_S * 1000:g} ms each")
    for row in rows(phases):
        table.add_row(*row)
    console = Console()
    console.print(table)
    if docs is not None:
        put_section(docs, "overload", [HEADER, *rows(phases)])
    failed = shortcomings(phases)
    for shortcoming in failed:
        console.print(shortcoming, style="bold red")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
