"""The record of every emission equals that of the SDK's emitter, but for the committed divergences."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from agent_hooks import InterceptionEmitter, InterceptionRecord
from hypothesis import HealthCheck, given, settings

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.client import divergences
from tests.client.cases import Case, cases
from tests.client.scripted import HANGS, Local, Scripted

CASES = 2500
#: Only silence is cut off, whatever else this machine is doing.
TIMEOUT_S = 0.03
PATIENCE_S = 20.0


class Bus:
    """A loop with a connection that asks and one that answers, kept over all cases of the property."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.agent = hookbus.connect(url)
        self.workers = hookbus.connect(url)
        self.scripted = Scripted(self.workers)

    def open(self) -> None:
        self.runner.run(self._open())

    async def _open(self) -> None:
        await self.agent.__aenter__()
        await self.workers.__aenter__()
        self.scripted.serve(4)
        await self.workers.flush(timeout_s=5)

    def close(self) -> None:
        self.runner.run(self._close())
        self.runner.close()

    async def _close(self) -> None:
        await self.agent.__aexit__(None, None, None)
        await self.workers.__aexit__(None, None, None)


@pytest.fixture(scope="module")
def bus(shared_server: EmbeddedServer) -> Iterator[Bus]:
    bus = Bus(shared_server.url)
    bus.open()
    yield bus
    bus.close()


def _configure(emitter: InterceptionEmitter, case: Case) -> None:
    if case.redacts == "yes":
        emitter.set_approval_redactor(_redact)
    elif case.redacts == "raises":
        emitter.set_approval_redactor(_raise)


def _redact(context: dict[str, Any]) -> dict[str, Any]:
    return {**copy.deepcopy(context), "target": "[redacted]"}


def _raise(_context: dict[str, Any]) -> dict[str, Any]:
    raise RuntimeError("secret words of a redactor")


async def by_sdk(case: Case) -> tuple[InterceptionRecord, dict[str, Any]]:
    emitter = InterceptionEmitter(
        mode=case.mode,
        resolver=case.resolution,
        timeout=PATIENCE_S,
        composition=case.composition,
        identity_provider=case.provider,
    )
    _configure(emitter, case)
    for index, behaviour in enumerate(case.behaviours):
        emitter.register(Local(behaviour), f"s{index}")
        if behaviour is HANGS:
            # The SDK takes a timeout for one interceptor from a declaration only.
            emitter._interceptors[-1].inherit_timeout = False
            emitter._interceptors[-1].timeout = TIMEOUT_S
    context = case.fresh_context()
    return await emitter.emit_unchecked(context), context


async def by_bus(case: Case, bus: Bus) -> tuple[InterceptionRecord, dict[str, Any]]:
    emitter = BusEmitter(
        mode=case.mode,
        resolver=case.resolution,
        timeout=PATIENCE_S,
        composition=case.composition,
        identity_provider=case.provider,
    )
    _configure(emitter, case)
    bus.scripted.behaviours = list(case.behaviours)
    for index, (behaviour, remote) in enumerate(zip(case.behaviours, case.remote, strict=True)):
        interceptor = bus.agent.interceptor(f"s{index}") if remote else Local(behaviour)
        emitter.register(interceptor, f"s{index}", timeout_s=TIMEOUT_S if behaviour is HANGS else PATIENCE_S)
    context = case.fresh_context()
    return await emitter.emit_unchecked(context), context


@pytest.mark.timeout(240)
@settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(case=cases())
def test_the_record_equals_that_of_the_sdk_in_every_member(bus: Bus, case: Case) -> None:
    async def both() -> None:
        theirs, their_context = await by_sdk(case)
        ours, our_context = await by_bus(case, bus)
        expected = divergences.apply(theirs.to_wire(), case)
        got = ours.to_wire()
        assert divergences.without_host_message(got) == divergences.without_host_message(expected)
        assert "secret" not in str(got)
        if ours.proceeds:
            assert our_context == their_context

    bus.runner.run(both())
