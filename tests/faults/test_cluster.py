"""Three servers: a node goes, and its clients find another one; a node comes back, and nobody notices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

import hookbus
from tests.client.scripted import until
from tests.faults.cluster import Cluster
from tests.faults.conftest import Note
from tests.faults.emissions import ALLOW, PATIENCE, SLACK_S, Agent
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio

#: Which node the agent and the worker join first; the third is left to flee to.
AGENTS, WORKERS = 0, 1


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
async def agent(cluster: Cluster, config: str) -> AsyncIterator[Agent]:
    """An agent on one node that is allowed by a worker on another; each was told of no other node."""
    worker = ("tests.faults.interceptors:Allow", "policy", "--config", config)
    with WorkerProcess(*worker, url=cluster.nodes[WORKERS].url):
        async with hookbus.connect(cluster.nodes[AGENTS].url, config=config) as bus, Agent(bus) as emitting:
            yield emitting
    assert emitting.latest_s < SLACK_S


@pytest.mark.parametrize(("whose", "number"), [("agent", AGENTS), ("worker", WORKERS)])
async def test_a_node_killed_is_fled_from_and_restarted_costs_nothing(
    cluster: Cluster, agent: Agent, note: Note, whose: str, number: int
) -> None:
    node = cluster.nodes[number]
    killing_s = time.monotonic()
    node.kill()
    if whose == "agent":
        await until(lambda: agent.bus.reconnects == 1, attempts=PATIENCE)
    back_s = await agent.allowed(since_s=time.monotonic())
    seen = agent.between(killing_s, back_s)
    note(f"the {whose}'s node killed", seen, max(0.0, _last_deny(agent, killing_s) - killing_s))
    assert set(seen) <= {ALLOW, "bus_down", "absent", "silent"}
    await asyncio.to_thread(node.restart)
    await asyncio.to_thread(cluster.wait_until_whole)
    whole_s = await agent.allowed(since_s=time.monotonic())
    assert set(agent.between(back_s, whole_s)) == {ALLOW}


async def test_the_agents_node_stopped_in_its_tracks_is_fled_from(
    cluster: Cluster, agent: Agent, note: Note
) -> None:
    cluster.nodes[AGENTS].pause()
    paused_s = time.monotonic()
    back_s = await agent.allowed(since_s=paused_s)
    note("the agent's node stopped", agent.between(paused_s, back_s), back_s - paused_s)
    assert agent.bus.reconnects == 1


@pytest.mark.parametrize(("whose", "number"), [("agent", AGENTS), ("worker", WORKERS)])
async def test_a_node_that_retires_is_fled_from(
    cluster: Cluster, agent: Agent, note: Note, whose: str, number: int
) -> None:
    node = cluster.nodes[number]
    retiring_s = time.monotonic()
    node.retire()
    await asyncio.to_thread(node.wait)
    gone_s = time.monotonic()
    back_s = await agent.allowed(since_s=gone_s)
    note(f"the {whose}'s node retires", agent.between(retiring_s, back_s), max(0.0, back_s - gone_s))
    assert set(agent.between(retiring_s, back_s)) <= {ALLOW, "bus_down", "absent", "silent"}


def _last_deny(agent: Agent, since_s: float) -> float:
    """Return when the last emission that began after *since_s* and was denied had ended."""
    return max((e.ended_s for e in agent.all if e.began_s >= since_s and e.came_to != ALLOW), default=since_s)
