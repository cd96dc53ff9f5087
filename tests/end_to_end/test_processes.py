"""Agent and worker in processes of their own: what a killed worker costs, and who may be an interceptor."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import nats
import pytest
from agent_hooks import AgentContextBuilder, InterceptionRecord

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.client.scripted import until
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio

IN_FLIGHT = 50
TIMEOUT_S = 1.0


def tool_calls() -> AgentContextBuilder:
    return AgentContextBuilder(agent_id="bot", framework="test", session_id="s")


def tool_call(builder: AgentContextBuilder) -> dict[str, Any]:
    return builder.pre_tool_call(call_id="c", name="t", args={"x": 1})


async def test_a_worker_killed_with_50_questions_in_flight_costs_50_denies_and_nothing_after(
    server: EmbeddedServer,
) -> None:
    builder = tool_calls()
    async with hookbus.connect(server.url) as bus:
        emitter = BusEmitter(timeout=TIMEOUT_S).register(bus.interceptor("policy"))

        async def emit() -> tuple[InterceptionRecord, float]:
            began = time.monotonic()
            record = await emitter.emit_unchecked(tool_call(builder))
            return record, time.monotonic() - began

        with WorkerProcess("tests.end_to_end.interceptors:Never", "policy", url=server.url) as worker:
            emissions = [asyncio.create_task(emit()) for _ in range(IN_FLIGHT)]
            await until(lambda: bus.in_flight == IN_FLIGHT)
            # The server has them all; one that it took after the kill would find nobody.
            assert await bus.flush(timeout_s=20)
            worker.kill()
            results = await asyncio.gather(*emissions)
        assert {record.verdict.reason for record, _ in results} == {"host_error:interceptor_timeout"}
        assert not any(record.proceeds for record, _ in results)
        # The deadline is kept by our own clock; what is allowed on top is the machine's own delay.
        assert max(took for _, took in results) < TIMEOUT_S + 1.0
        absent, _ = await emit()
        assert absent.verdict.message == "absent: no worker of 'policy' is subscribed"
        with WorkerProcess("tests.end_to_end.interceptors:Always", "policy", url=server.url):
            allowed, _ = await emit()
        assert allowed.proceeds
        assert len(emitter.results) == IN_FLIGHT + 2


async def test_a_plain_subscriber_that_answers_a_bare_verdict_is_an_interceptor(server: EmbeddedServer) -> None:
    plain = await nats.connect(server.url)

    async def because(message: Any) -> None:
        await message.respond(b'{"decision":"deny","reason":"because"}')

    await plain.subscribe("hb.v1.default.ctx.demo.>", queue="demo", cb=because)
    # nats-py writes the PING of a flush before the SUB it has pending: only the second one is after it.
    await plain.flush()
    await plain.flush()
    async with hookbus.connect(server.url) as bus:
        emitter = BusEmitter(timeout=20.0).register(bus.interceptor("demo"))
        record = await emitter.emit_unchecked(tool_call(tool_calls()))
    await plain.close()
    assert (record.verdict.decision.value, record.verdict.reason, record.decided_by) == ("deny", "because", 0)
