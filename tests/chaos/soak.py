"""One soak: agents emit by a plan while its faults happen, then everything has to come back by itself."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Final, Self

from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.chaos.agents import CASTINGS, Agent, Casting
from tests.chaos.causes import Causes
from tests.chaos.faults import Faults
from tests.chaos.fleet import Fleet
from tests.chaos.line import Line
from tests.chaos.odometer import Odometer
from tests.chaos.oracle import Oracle
from tests.chaos.plan import LINED_WORKER, WORKERS, Plan
from tests.chaos.proofs import Notary
from tests.chaos.report import Report
from tests.chaos.worker import Role

TENANT: Final = "chaos"
#: How long a lane rests between two emissions, on average.
REST_S: Final = 0.05
LANES: Final = 8
#: Within this time after the last fault everything must be back.
COMEBACK_S: Final = 15.0


class Stage:
    """A server and the fleet on it, for one soak or several; ``async with`` starts and ends both."""

    def __init__(self) -> None:
        self.server = EmbeddedServer()
        self.key = secrets.token_bytes(32)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with self._open:
            await asyncio.to_thread(self._open.enter_context, self.server)
            self.worker_line = await self._open.enter_async_context(Line(self.server.port))
            roles = [
                self._role(interceptor, worker) for interceptor, workers in WORKERS.items() for worker in workers
            ]
            self.fleet = await self._open.enter_async_context(Fleet(roles))
            self._open = self._open.pop_all()
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(error_type, error, trace)

    def _role(self, interceptor: str, worker: str) -> Role:
        url = self.worker_line.url if worker == LINED_WORKER else self.server.url
        return Role(interceptor, worker, url, TENANT, self.key.hex(), seed=worker)


class Hanging(Exception):
    """Some emission did not end long after its deadline; the oracle has noted it."""


class Soak:
    """Runs *plan* on *stage*, with agents of these *castings*, each emitting on so many *lanes* at a time.

    ``make_emitter`` makes the emitters under test.
    """

    def __init__(
        self,
        stage: Stage,
        plan: Plan,
        *,
        castings: Sequence[Casting] = CASTINGS,
        lanes: int = LANES,
        make_emitter: Callable[..., BusEmitter] = BusEmitter,
    ) -> None:
        self._stage = stage
        self._castings = castings
        self._lanes = lanes
        self._plan = plan
        self._make_emitter = make_emitter
        self._enough = asyncio.Event()
        self.odometer = Odometer()
        self.causes = Causes()
        self.oracle = Oracle(Notary(stage.key), self.causes.note)

    async def run(self) -> Report:
        """Return what came of it, violations and all. Ends early only when an emission never ends."""
        async with self._agents() as agents:
            await self._see_everybody(agents)
            try:
                await self._play(agents)
            except* Hanging:
                pass
            else:
                await self._see_everybody(agents)
            self.oracle.finish()
            dropped = sum((Counter(agent.bus.dropped_answers) for agent in agents.values()), Counter[str]())
        return Report.of(self._plan, self.oracle, self.causes, dropped)

    @asynccontextmanager
    async def _agents(self) -> AsyncIterator[dict[str, Agent]]:
        async with AsyncExitStack() as stack:
            agents = {}
            for casting in self._castings:
                line = await stack.enter_async_context(Line(self._stage.server.port))
                agent = Agent(
                    casting,
                    line,
                    self.oracle,
                    tenant=TENANT,
                    session=secrets.token_hex(8),
                    seed=f"{self._plan.seed} {casting.name}",
                    make_emitter=self._make_emitter,
                )
                agents[casting.name] = await stack.enter_async_context(agent)
            yield agents

    async def _play(self, agents: dict[str, Agent]) -> None:
        faults = Faults(self._stage, agents, self.causes, self.odometer)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch())
            for agent in agents.values():
                for lane in range(self._lanes):
                    chance = random.Random(f"{self._plan.seed} {agent.casting.name} {lane}")
                    tasks.create_task(self._emit(agent, chance))
            async with asyncio.TaskGroup() as playing:
                for fault in self._plan.faults:
                    playing.create_task(faults.play(fault))
            await self.odometer.reached(self._plan.emissions)
            self._enough.set()
            watching.cancel()

    async def _emit(self, agent: Agent, chance: random.Random) -> None:
        while not self._enough.is_set():
            await asyncio.sleep(chance.expovariate(1 / REST_S))
            await agent.emit()
            self.odometer.advance()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.oracle.hanging(asyncio.get_running_loop().time()):
                raise Hanging

    async def _see_everybody(self, agents: dict[str, Agent]) -> None:
        """See every agent act and every worker decide, with nobody's help; what does not is a violation."""
        fleet = self._stage.fleet
        self.oracle.heard.clear()
        away = set(agents)
        try:
            async with asyncio.timeout(COMEBACK_S):
                while away or self.oracle.heard < set(fleet.workers):
                    for agent in agents.values():
                        if (await agent.emit()).permitted:
                            away.discard(agent.casting.name)
                    # The oracle judges at its next tick.
                    await asyncio.sleep(0.01)
        except TimeoutError:
            for name in [*away, *(set(fleet.workers) - self.oracle.heard)]:
                self.oracle.violate("agents and workers that did not come back", name)
        for worker in fleet.workers.values():
            worker.check()
            for _ in range(worker.deserted):
                self.oracle.violate("workers that ended by themselves", worker.role.worker)
            worker.deserted = 0
