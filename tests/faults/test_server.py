"""The server is killed, restarted, stopped and continued: denies in time, and permits again with nobody's help."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from tests.client.scripted import until
from tests.faults.cluster import free_port
from tests.faults.conftest import Note
from tests.faults.emissions import ALLOW, PATIENCE, SLACK_S, Agent
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio


@pytest.fixture
async def agent(server: EmbeddedServer, config: str) -> AsyncIterator[Agent]:
    """An agent that emits and is allowed, by a worker process."""
    with WorkerProcess("tests.faults.interceptors:Allow", "policy", "--config", config, url=server.url):
        async with hookbus.connect(server.url, config=config) as bus, Agent(bus) as emitting:
            yield emitting
    assert emitting.latest_s < SLACK_S


async def test_a_server_killed_and_restarted(server: EmbeddedServer, agent: Agent, note: Note) -> None:
    server.kill()
    killed_s = time.monotonic()
    await agent.denied(since_s=killed_s, times=20)
    restarting_s = time.monotonic()
    assert set(agent.between(killed_s, restarting_s)) == {"bus_down"}
    await asyncio.to_thread(server.restart)
    restarted_s = time.monotonic()
    back_s = await agent.allowed(since_s=restarting_s)
    note("server killed and restarted", agent.between(killed_s, back_s), back_s - restarted_s)
    assert agent.bus.reconnects == 1


async def test_a_server_stopped_for_less_than_the_deadline_costs_nothing(
    server: EmbeddedServer, note: Note
) -> None:
    with WorkerProcess("tests.faults.interceptors:Allow", "policy", url=server.url):
        async with hookbus.connect(server.url) as bus, Agent(bus, timeout_s=20) as agent:
            server.pause()
            paused_s = time.monotonic()
            await until(lambda: bus.in_flight == 1)
            server.resume()
            resumed_s = time.monotonic()
            back_s = await agent.allowed(since_s=resumed_s)
            # What was asked before or while the server stood still has been answered as well.
            assert set(agent.between(0, back_s)) == {ALLOW}
            assert bus.reconnects == 0
            note("server stopped for a moment", agent.between(paused_s, back_s), back_s - resumed_s)


async def test_a_server_stopped_and_continued(server: EmbeddedServer, agent: Agent, note: Note) -> None:
    server.pause()
    paused_s = time.monotonic()
    await until(lambda: not agent.bus.is_connected, attempts=PATIENCE)
    await agent.denied(since_s=paused_s, times=20)
    resuming_s = time.monotonic()
    assert set(agent.between(paused_s, resuming_s)) == {"bus_down"}
    server.resume()
    back_s = await agent.allowed(since_s=resuming_s)
    note("server stopped and continued", agent.between(paused_s, back_s), back_s - resuming_s)


async def test_the_server_that_was_just_lost_is_tried_last(server: EmbeddedServer) -> None:
    """One that has stopped takes a connection and says nothing, so an attempt costs the whole time to connect."""
    other = EmbeddedServer(port=free_port())
    # Named again and again, so that by chance alone the lost one would be tried first.
    urls = ",".join([other.url, *[server.url] * 30])
    async with hookbus.connect(urls, ping_interval_s=0.1, connect_timeout_s=30) as bus:
        with other:
            server.pause()
            await until(lambda: bus.reconnects == 1)
