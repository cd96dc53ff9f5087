"""A run: everything is started, every contender gets its slices in turn, and everything ends."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client.bench.agent import Measured, Slice
from hookbus_client.bench.conversations import SIZES, session_bytes
from hookbus_client.bench.plan import Case, Contender, Plan
from hookbus_client.bench.processes import Child, Fleet
from hookbus_client.bench.results import Extras, Figures, Results, figures, machine, now

#: Told what comes next, and how many steps of how many are done.
Progress = Callable[[str, int, int], None]

#: The largest context does not fit into the 1 MB that a server takes unless it is told otherwise.
SERVER_CONFIG: Final = "max_payload: 8MB"
_SMALLEST: Final = Case("0.5 KB", 1)
#: Callers for each slow worker. A queue group spreads questions at random, so some workers have nothing to do
#: unless many questions wait: with so many, chance alone costs 3 %.
_CALLERS_PER_WORKER: Final = 32


async def run(plan: Plan, url: str | None, on_progress: Progress) -> Results:
    """Measure *plan* on the servers at *url*, or on one of its own.

    Raises :class:`hookbus_client.bench.processes.ChildFailed` when a process ends, as an agent does on a deny.
    """
    began_s, date, where = time.monotonic(), now(), machine()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hookbus-bench-")))
        if url is None:
            url = stack.enter_context(EmbeddedServer(config=SERVER_CONFIG)).url
        fleet = Fleet(stack, url, folder)
        measuring = _Run(await _carried(plan, url), fleet, on_progress)
        await measuring.start()
        memory = await measuring.memory()
        measured = await measuring.cases()
        scaled = await measuring.scaling()
        fleet.end()
    conversation, sent = session_bytes(plan.session_turns)
    extras = Extras(
        plan.memory_emissions[1], *memory, plan.scaled_workers, *scaled, plan.session_turns, conversation, sent
    )
    return Results(plan.name, date, round(time.monotonic() - began_s, 1), where, measured, extras)


async def _carried(plan: Plan, url: str) -> Plan:
    """Return *plan* without the contexts that the servers at *url* do not carry."""
    async with hookbus.connect(url, name="hookbus bench") as bus:
        carries = bus.max_context_bytes
    fits = {case: who for case, who in plan.cases.items() if SIZES.get(case.context, 0) <= carries}
    return msgspec.structs.replace(plan, cases=fits)


class _Run:
    def __init__(self, plan: Plan, fleet: Fleet, on_progress: Progress) -> None:
        self.plan = plan
        self._fleet = fleet
        self._on_progress = on_progress
        self._steps = 3 + sum(plan.rounds * len(contenders) for contenders in plan.cases.values())
        self._done = 0
        self._workers: dict[Contender, Mapping[str, Child]] = {}
        self._agents: dict[Contender, Child] = {}

    def _begin(self, what: str) -> None:
        self._on_progress(what, self._done, self._steps)
        self._done += 1

    async def start(self) -> None:
        """Start what the cases need."""
        self._begin("starting workers and agents")
        most: dict[Contender, int] = {Contender.BUS: 1}
        for case, contenders in self.plan.cases.items():
            most |= {who: max(case.interceptors, most.get(who, 0)) for who in contenders}
        # All at once: starting is work for the processors.
        self._workers = {who: await self._fleet.workers(who, count) for who, count in most.items()}
        self._agents = {who: await self._fleet.agent(who, self._workers[who]) for who in most}
        for agent in self._agents.values():
            await agent.ready()

    async def cases(self) -> list[Figures]:
        """Measure every case of the plan."""
        return [found for case, who in self.plan.cases.items() for found in await self._case(case, who)]

    async def _case(self, case: Case, contenders: tuple[Contender, ...]) -> list[Figures]:
        """Measure *case*: in each round every contender has its turn, each round another one first."""
        wanted = Slice(case, self.plan.slice_s * (1 if case.callers == 1 else 2), 1 if case.callers > 1 else 3)
        rounds = {contender: list[Measured]() for contender in contenders}
        for number in range(self.plan.rounds):
            first = number % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                self._begin(str(case))
                rounds[contender].append(await self._agents[contender].measured(wanted))
        return [figures(case, contender, measured) for contender, measured in rounds.items()]

    async def memory(self) -> tuple[int, int]:
        """Return the memory of an agent when it is warm, and after many emissions more."""
        self._begin("memory")
        agent = await self._fleet.agent(Contender.BUS, self._workers[Contender.BUS])
        await agent.ready()
        before, after = [
            (await agent.measured(Slice(_SMALLEST, 0, count))).rss_bytes for count in self.plan.memory_emissions
        ]
        return before, after

    async def scaling(self) -> tuple[float, float]:
        """Return emissions per second at an interceptor that waits 20 ms: with one worker, and with all."""
        self._begin("one worker, then more")
        workers = await self._fleet.workers(Contender.SLOW, 1)
        agent = await self._fleet.agent(Contender.SLOW, workers)
        await agent.ready()
        one = await self._scaled(agent, 1)
        await self._fleet.more_slow_workers(self.plan.scaled_workers - 1)
        return one, await self._scaled(agent, self.plan.scaled_workers)

    async def _scaled(self, agent: Child, workers: int) -> float:
        case = Case("0.5 KB", 1, _CALLERS_PER_WORKER * workers)
        measured = await agent.measured(Slice(case, 10 * self.plan.slice_s))
        return round(measured.counted / measured.counted_s, 1)
