"""The faults themselves: each is done to its target, and undone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.chaos.agents import Agent
from tests.chaos.causes import Causes
from tests.chaos.odometer import Odometer
from tests.chaos.plan import BENDS, INTERCEPTOR_FAULTS, Fault
from tests.chaos.worker import Order

if TYPE_CHECKING:
    from tests.chaos.soak import Stage


class Faults:
    """Plays faults on a stage and its agents, one at a time for each target."""

    def __init__(self, stage: Stage, agents: Mapping[str, Agent], causes: Causes, odometer: Odometer) -> None:
        self._stage = stage
        self._agents = agents
        self._causes = causes
        self._odometer = odometer
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def play(self, fault: Fault) -> None:
        """Do *fault* at its time and undo it; return when all that it met has been put back."""
        await self._odometer.reached(fault.begins)
        async with self._locks[fault.target]:
            until = self._odometer.count + fault.lasts
            occurrence = self._causes.begin(fault)
            async with self._done(fault):
                await self._odometer.reached(until)
            self._causes.end(occurrence)

    @asynccontextmanager
    async def _done(self, fault: Fault) -> AsyncIterator[None]:
        worker = self._stage.fleet.workers.get(fault.target)
        agent = self._agents.get(fault.target)
        server = self._stage.server
        match fault.kind:
            case "worker_killed" if worker:
                await worker.kill()
                yield
                await worker.start()
            case "worker_restarted" if worker:
                await worker.drain()
                yield
                await worker.start()
            case "worker_stopped" if worker:
                worker.stop()
                yield
                worker.go_on()
            case "rolling_restart":
                for each in self._stage.fleet.workers.values():
                    await each.replace()
                yield
            case "worker_cut":
                self._stage.worker_line.refusing = True
                self._stage.worker_line.cut()
                yield
                self._stage.worker_line.refusing = False
            case "server_killed":
                await asyncio.to_thread(server.kill)
                yield
                await asyncio.to_thread(server.restart)
            case "server_restarted":
                await asyncio.to_thread(server.restart)
                yield
            case "server_stopped":
                await asyncio.to_thread(server.pause)
                yield
                server.resume()
            case "agent_cut" if agent:
                agent.line.refusing = True
                agent.line.cut()
                yield
                agent.line.refusing = False
            case "agent_held" if agent:
                agent.line.hold()
                yield
                agent.line.let_go()
            case "oversize_context" if agent:
                agent.oversize = fault.share
                yield
                agent.oversize = 0.0
            case kind if worker:
                order = Order(bend=BENDS.get(kind), fault=INTERCEPTOR_FAULTS.get(kind), share=fault.share)
                await worker.order(order)
                yield
                await worker.order(Order())
            case _:
                raise ValueError(f"no {fault.kind} can meet {fault.target}")
