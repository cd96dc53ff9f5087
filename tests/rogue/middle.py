"""An agent and a worker with generated settings, and a hostile server between each of them and the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.rogue.hostile import Frame, HostileServer, Tamper
from tests.rogue.parties import Asking, Policy, Serving, asking, serving
from tests.rogue.plain import PlainDeployment


class Middle(NamedTuple):
    """Both sides and what stands before each."""

    agent: Asking
    policy: Serving
    to_agent: HostileServer
    to_worker: HostileServer


@asynccontextmanager
async def in_the_middle(plain: PlainDeployment, decision: str = "deny") -> AsyncIterator[Middle]:
    """Have ``travel`` and a worker of ``policy``, which decides *decision*, connect through hostile servers."""
    port = plain.server.port
    async with (
        HostileServer(port) as to_agent,
        HostileServer(port) as to_worker,
        serving(plain, policy=Policy(decision), url=to_worker.url) as policy,
        asking(plain, url=to_agent.url) as agent,
    ):
        yield Middle(agent, policy, to_agent, to_worker)


def changing(change: Callable[[Frame], Frame]) -> Tamper:
    """Return what delivers every message changed."""
    return lambda frame: [change(frame)]


class Holding:
    """Delivers nothing by itself and keeps what came, to be delivered otherwise."""

    def __init__(self) -> None:
        self.held: list[Frame] = []

    def __call__(self, frame: Frame) -> list[Frame]:
        self.held.append(frame)
        return []
