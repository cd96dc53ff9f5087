"""The breaker: after repeated silence deny at once, try one real emission per interval, never permit."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, EnforcementMode, InterceptionRecord
from hypothesis import given
from hypothesis import strategies as st

import hookbus
from hookbus import Connection
from hookbus.breaker import Breaker
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.client.workers import Workers

pytestmark = pytest.mark.anyio

OPENS_AFTER = 3
ALLOW = b'{"decision":"allow"}'
MESSAGE = "open: 'policy' was silent again and again, so it is asked only now and then"


def breaking(server: EmbeddedServer, tenant: str, interval_s: float = 1000.0) -> Connection:
    return hookbus.connect(
        server.url, tenant=tenant, breaker_opens_after=OPENS_AFTER, breaker_trial_interval_s=interval_s
    )


async def emit(bus: Connection, name: str = "policy", **configuration: Any) -> InterceptionRecord:
    builder = AgentContextBuilder(agent_id="bot", framework="test", session_id="s")
    emitter = BusEmitter(timeout=0.03, **configuration).register(bus.interceptor(name))
    return await emitter.emit_unchecked(builder.input(content="x"))


async def test_repeated_silence_opens_it_and_one_trial_goes_through(
    shared_server: EmbeddedServer, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    await workers.serve("policy", "other")
    async with breaking(shared_server, workers.connection.settings.tenant) as bus:
        with caplog.at_level(logging.WARNING):
            for _ in range(OPENS_AFTER):
                assert (await emit(bus)).verdict.reason == "host_error:interceptor_timeout"
        assert bus.open_breakers == {"policy"}
        assert "'policy' was silent 3 times in a row" in caplog.text
        # The trial, and then nothing until the interval is over.
        assert (await emit(bus)).verdict.reason == "host_error:interceptor_timeout"
        for _ in range(3):
            record = await emit(bus)
            assert (record.verdict.reason, record.verdict.message) == ("host_error:interceptor_failed", MESSAGE)
            assert not record.proceeds
        assert len(workers.asked) == OPENS_AFTER + 1
        # It is this interceptor's, and nobody else's.
        assert (await emit(bus, "other")).verdict.reason == "host_error:interceptor_timeout"


async def test_a_trial_that_is_answered_closes_it(shared_server: EmbeddedServer, workers: Workers) -> None:
    replies: list[bytes | None] = [None]
    await workers.serve("policy", answer=lambda _name: replies[0])
    async with breaking(shared_server, workers.connection.settings.tenant) as bus:
        for _ in range(OPENS_AFTER):
            await emit(bus)
        replies[0] = ALLOW
        assert (await emit(bus)).proceeds
        assert bus.open_breakers == frozenset()
        assert (await emit(bus)).proceeds


async def test_evaluate_only_asks_past_it(shared_server: EmbeddedServer, workers: Workers) -> None:
    await workers.serve("policy")
    async with breaking(shared_server, workers.connection.settings.tenant) as bus:
        for _ in range(OPENS_AFTER + 1):
            await emit(bus)
        asked = len(workers.asked)
        for _ in range(2):
            await emit(bus, mode=EnforcementMode.EVALUATE_ONLY)
        assert len(workers.asked) == asked + 2


async def test_it_belongs_to_one_connection(shared_server: EmbeddedServer, workers: Workers) -> None:
    await workers.serve("policy")
    tenant = workers.connection.settings.tenant
    async with breaking(shared_server, tenant) as bus, breaking(shared_server, tenant) as other:
        for _ in range(OPENS_AFTER):
            await emit(bus)
        assert (bus.open_breakers, other.open_breakers) == ({"policy"}, frozenset())


async def test_absence_does_not_open_it(shared_server: EmbeddedServer, workers: Workers) -> None:
    async with breaking(shared_server, workers.connection.settings.tenant) as bus:
        for _ in range(OPENS_AFTER * 2):
            assert (await emit(bus)).verdict.message == "absent: no worker of 'policy' is subscribed"
        assert bus.open_breakers == frozenset()


@given(events=st.lists(st.sampled_from(["silent", "heard", "ask", "later"]), max_size=60))
def test_it_is_open_exactly_after_that_many_silences_and_tries_once_per_interval(events: list[str]) -> None:
    breaker = Breaker("policy", opens_after=OPENS_AFTER, trial_interval_s=10.0)
    now, silences, last_trial = 100.0, 0, None
    for event in events:
        if event == "silent":
            breaker.silent()
            silences += 1
            if silences == OPENS_AFTER:
                last_trial = None
        elif event == "heard":
            breaker.heard()
            silences = 0
        elif event == "later":
            now += 4.0
        else:
            permitted = breaker.permits(now)
            if silences < OPENS_AFTER:
                assert permitted
            else:
                assert permitted == (last_trial is None or now - last_trial >= 10.0)
                if permitted:
                    last_trial = now
        assert breaker.is_open == (silences >= OPENS_AFTER)
