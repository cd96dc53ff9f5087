"""All of AgentDojo's user tasks through ``Agent``: without hooks, and through the bus to a worker process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import anyio
import msgspec
import nats
import pytest
from agent_hooks import Decision, InterceptionRecord
from nats.aio.client import Client

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_client.agent import Emitter
from hookbus_client.demo.workers import worker_process
from tests.dojo.driver import Outcome, agent_player, cases, play, reference_results, stopped_clock

pytestmark = pytest.mark.slow

WORKER = "allow-all"


@dataclass(frozen=True)
class Drive:
    """The outcome of every case; over the bus, also what the worker process counted itself."""

    outcomes: list[Outcome]
    worker: dict[str, Any]

    @property
    def records(self) -> Iterator[InterceptionRecord]:
        return chain.from_iterable(outcome.run.records for outcome in self.outcomes)


async def play_all(emitter: Emitter | None) -> list[Outcome]:
    async with agent_player(emitter) as player:
        return [await play(case, player) for case in cases()]


async def drive_without_hooks() -> Drive:
    return Drive(await play_all(None), {})


async def drive_through_the_bus(url: str) -> Drive:
    async with (
        worker_process(WORKER, "tests.dojo.allow_all:allow_all", url=url),
        hookbus.connect(url) as bus,
    ):
        emitter = BusEmitter().register(bus.interceptor(WORKER))
        return Drive(await play_all(emitter), await statistics_of_the_worker(url))


async def statistics_of_the_worker(url: str) -> dict[str, Any]:
    """What the worker answers to ``$SRV.STATS``."""
    async with plain_client(url) as client:
        answer = await client.request(f"$SRV.STATS.{WORKER}", b"", timeout=5)
    return msgspec.json.decode(answer.data, type=dict[str, Any])


@asynccontextmanager
async def plain_client(url: str) -> AsyncIterator[Client]:
    client = await nats.connect(url)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture(scope="module")
def clock() -> Iterator[None]:
    with stopped_clock():
        yield


@pytest.fixture(scope="module")
def without_hooks(clock: None) -> Drive:
    return anyio.run(drive_without_hooks)


@pytest.fixture(scope="module")
def through_the_bus(clock: None, shared_server: EmbeddedServer) -> Drive:
    return anyio.run(drive_through_the_bus, shared_server.url)


def useless(drive: Drive) -> list[str]:
    return [outcome.case.id for outcome in drive.outcomes if not outcome.useful]


def tool_results(drive: Drive) -> dict[str, tuple[str, ...]]:
    return {outcome.case.id: outcome.tool_results for outcome in drive.outcomes}


def test_without_hooks_every_one_of_the_97_user_tasks_passes_its_own_utility_check(without_hooks: Drive) -> None:
    assert len(without_hooks.outcomes) == 97
    assert useless(without_hooks) == []
    assert list(without_hooks.records) == []


def test_through_the_bus_every_one_of_the_97_user_tasks_passes_its_own_utility_check(
    through_the_bus: Drive,
) -> None:
    assert len(through_the_bus.outcomes) == 97
    assert useless(through_the_bus) == []


def test_the_tools_give_what_they_give_in_agentdojos_own_pipeline(without_hooks: Drive) -> None:
    reference = {case.id: reference_results(case) for case in cases()}
    assert tool_results(without_hooks) == reference
    assert sum(map(len, reference.values())) == 339


def test_the_bus_changes_no_tool_result_and_no_last_word(without_hooks: Drive, through_the_bus: Drive) -> None:
    assert tool_results(through_the_bus) == tool_results(without_hooks)
    assert [outcome.run.output for outcome in through_the_bus.outcomes] == [
        outcome.run.output for outcome in without_hooks.outcomes
    ]


def test_every_point_around_every_call_is_emitted_in_order(through_the_bus: Drive) -> None:
    model, tool = ["pre_model_call", "post_model_call"], ["pre_tool_call", "post_tool_call"]
    for outcome in through_the_bus.outcomes:
        emitted = [record.interception_point.value for record in outcome.run.records]
        turns = (model + tool) * len(outcome.tool_results) + model
        assert emitted == ["agent_startup", "input", *turns, "output", "agent_shutdown"], outcome.case.id
        assert [record.sequence for record in outcome.run.records] == list(range(len(emitted)))


def test_every_emission_was_allowed_by_the_one_interceptor(through_the_bus: Drive) -> None:
    for record in through_the_bus.records:
        assert record.interceptors_registered == 1
        assert record.verdict.decision is Decision.ALLOW
        assert [(verdict.name, verdict.decision) for verdict in record.verdicts] == [(WORKER, Decision.ALLOW)]


def test_the_worker_process_answered_each_emission_itself(through_the_bus: Drive) -> None:
    answered = {endpoint["name"]: endpoint["num_requests"] for endpoint in through_the_bus.worker["endpoints"]}
    errors = sum(endpoint["num_errors"] for endpoint in through_the_bus.worker["endpoints"])
    assert (sum(answered.values()), errors) == (len(list(through_the_bus.records)), 0)
    assert sum(answered.values()) == 4 * 339 + 6 * 97
