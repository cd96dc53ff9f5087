"""Clocks an hour apart: an emission denies or works, and no wall clock moves a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from tests.client.scripted import until
from tests.faults.emissions import ALLOW, SLACK_S, Agent
from tests.faults.interceptors import HOUR_S, STALL, shift_clock
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio

MODULE = "tests.faults.interceptors"


@pytest.fixture
def right_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test does to the clock of this process, it is right again afterwards."""
    for name in ("time", "time_ns"):
        monkeypatch.setattr(time, name, getattr(time, name))


@contextmanager
def workers(server: EmbeddedServer, target: str) -> Iterator[EmbeddedServer]:
    """Two workers of the policy: one of tenant ``strict``, and one of ``lenient`` that allows an hour of skew."""
    policy = (f"{MODULE}:{target}", "policy")
    with (
        WorkerProcess(*policy, url=server.url, tenant="strict"),
        WorkerProcess(*policy, "--skew-ms", str(HOUR_S * 1000), url=server.url, tenant="lenient"),
    ):
        yield server


@pytest.fixture(scope="module")
def right_workers() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server, workers(server, "Allow") as served:
        yield served


async def told(server: EmbeddedServer, tenant: str) -> set[str]:
    """Return what a few emissions come to; nobody may wait for a deadline."""
    async with hookbus.connect(server.url, tenant=tenant) as bus:
        agent = Agent(bus, timeout_s=20)
        came_to = {(await agent.emit()).came_to for _ in range(5)}
    assert agent.latest_s < SLACK_S - agent.timeout_s
    return came_to


@pytest.mark.usefixtures("right_clock")
async def test_an_agent_whose_clock_is_behind_is_denied_at_once_unless_that_is_allowed(
    right_workers: EmbeddedServer,
) -> None:
    shift_clock(-HOUR_S)
    assert await told(right_workers, "strict") == {"expired"}
    assert await told(right_workers, "lenient") == {ALLOW}


@pytest.mark.usefixtures("right_clock")
async def test_an_agent_whose_clock_is_ahead_is_answered(right_workers: EmbeddedServer) -> None:
    shift_clock(HOUR_S)
    assert await told(right_workers, "strict") == {ALLOW}
    assert await told(right_workers, "lenient") == {ALLOW}


async def test_a_worker_whose_clock_is_ahead_denies_at_once_unless_that_is_allowed(server: EmbeddedServer) -> None:
    with workers(server, "AllowAnHourAhead"):
        assert await told(server, "strict") == {"expired"}
        assert await told(server, "lenient") == {ALLOW}


async def test_a_worker_whose_clock_is_behind_answers(server: EmbeddedServer) -> None:
    with workers(server, "AllowAnHourBehind"):
        assert await told(server, "strict") == {ALLOW}
        assert await told(server, "lenient") == {ALLOW}


@pytest.mark.usefixtures("right_clock")
@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
async def test_a_clock_that_jumps_while_a_question_is_out_moves_no_deadline(
    server: EmbeddedServer, jump_s: int
) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far:
        far.serve(["hb.v1.default.ctx.policy.*.*"], "policy", lambda _message: None, on_refused=print)
        await far.flush(timeout_s=5)
        agent = Agent(bus, timeout_s=0.3)
        emitting = asyncio.create_task(agent.emit())
        await until(lambda: bus.in_flight == 1)
        shift_clock(jump_s)
        emission = await emitting
        assert emission.came_to == "silent"
        assert agent.timeout_s <= emission.took_s < agent.timeout_s + SLACK_S


@pytest.mark.parametrize("target", ["Allow", "AllowAnHourBehind"])
async def test_the_answer_to_a_stale_question_never_counts(server: EmbeddedServer, target: str) -> None:
    """The question waits in a stopped server; a worker whose clock is behind even evaluates it."""
    with WorkerProcess(f"{MODULE}:{target}", "policy", url=server.url):
        async with hookbus.connect(server.url, ping_interval_s=20) as bus:
            agent = Agent(bus, timeout_s=0.2)
            server.pause()
            assert (await agent.emit()).came_to == "silent"
            server.resume()
            await until(lambda: bus.dropped_answers.get("unasked") == 1)
            assert [emission.came_to for emission in agent.all] == ["silent"]
            patient = Agent(bus, timeout_s=20)
            assert (await patient.emit()).came_to == ALLOW
            assert bus.dropped_answers == {"unasked": 1}


async def test_a_worker_whose_loop_stalled_longer_than_a_question_may_wait_never_evaluates_it(
    server: EmbeddedServer,
) -> None:
    with WorkerProcess(f"{MODULE}:StallAnHourBehind", "policy", url=server.url) as worker:
        async with hookbus.connect(server.url) as bus:
            patient, hasty = Agent(bus, timeout_s=20), Agent(bus, timeout_s=0.2)
            stalling = asyncio.create_task(patient.emit(STALL))
            await asyncio.to_thread(worker.wait_for_line, f"evaluated {STALL}")
            stale = await asyncio.gather(*(hasty.emit(f"stale-{number}") for number in range(10)))
            assert {emission.came_to for emission in stale} == {"silent"}
            assert hasty.latest_s < SLACK_S
            # The call that stalled had time enough itself.
            assert (await stalling).came_to == ALLOW
            await until(lambda: bus.dropped_answers.get("unasked") == 10)
            assert (await patient.emit("fresh")).came_to == ALLOW
            await asyncio.to_thread(worker.wait_for_line, "evaluated fresh")
        evaluated = [line.split()[1] for line in worker.output if line.startswith("evaluated ")]
        assert evaluated == [STALL, "fresh"]
