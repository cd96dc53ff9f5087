"""Hedges: one second attempt, of the same question, for interceptors declared safe to repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, CompositionConfig, DeclarationError, InterceptionRecord

from hookbus import Connection
from hookbus_client import BusEmitter, host_registry
from tests.client.scripted import until
from tests.client.workers import Workers

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0
ALLOW = b'{"decision":"allow"}'


def tool_call() -> dict[str, Any]:
    builder = AgentContextBuilder(agent_id="bot", framework="test", session_id="s")
    return builder.pre_tool_call(call_id="c", name="t", args={"x": 1})


def emission(
    bus: Connection, *, hedge_after_s: float | None = 0.02, timeout_s: float = PATIENCE_S
) -> asyncio.Task[InterceptionRecord]:
    emitter = BusEmitter(timeout=timeout_s).register(bus.interceptor("policy", hedge_after_s=hedge_after_s))
    return asyncio.create_task(emitter.emit_unchecked(tool_call()))


async def test_silence_is_asked_a_second_time_under_the_same_id(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    running = emission(bus)
    await until(lambda: len(workers.asked) == 2)
    first, second = workers.asked
    assert workers.id_of(first) == workers.id_of(second)
    assert first.body == second.body
    assert first.reply != second.reply
    workers.answer(second, ALLOW)
    assert (await running).proceeds
    assert bus.in_flight == 0


async def test_the_first_attempt_may_still_answer(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    running = emission(bus)
    await until(lambda: len(workers.asked) == 2)
    workers.answer(workers.asked[0], b'{"decision":"deny","reason":"first"}')
    assert (await running).verdict.reason == "first"
    workers.answer(workers.asked[1], ALLOW)
    await until(lambda: bus.dropped_answers == {"unasked": 1})


async def test_there_is_one_second_attempt_and_no_third(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    record = await emission(bus, hedge_after_s=0.01, timeout_s=0.2)
    assert record.verdict.reason == "host_error:interceptor_timeout"
    assert len(workers.asked) == 2


async def test_nobody_is_asked_twice_who_is_not_declared_safe_to_repeat(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    await emission(bus, hedge_after_s=None, timeout_s=0.1)
    assert len(workers.asked) == 1


async def test_an_answer_in_time_spares_the_second_attempt(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    assert (await emission(bus, hedge_after_s=0.2)).proceeds
    await workers.connection.flush(timeout_s=5)
    assert len(workers.asked) == 1


@pytest.mark.parametrize(
    ("error", "body"), [("500", b""), ("429", b""), (None, b"rubbish"), (None, b'{"decision":"perhaps"}')]
)
async def test_an_error_or_rubbish_waits_for_the_attempt_that_is_still_out(
    bus: Connection, workers: Workers, error: str | None, body: bytes
) -> None:
    await workers.serve("policy")
    running = emission(bus)
    await until(lambda: len(workers.asked) == 2)
    workers.answer(workers.asked[1], body, error=error)
    await workers.connection.flush(timeout_s=5)
    assert not running.done()
    workers.answer(workers.asked[0], ALLOW)
    assert (await running).proceeds


async def test_the_last_attempt_to_end_settles_it(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    running = emission(bus)
    await until(lambda: len(workers.asked) == 2)
    workers.answer(workers.asked[0], b"rubbish")
    workers.answer(workers.asked[1], b"", error="500")
    record = await running
    assert record.verdict.message == "raised: 'policy' raised instead of deciding"


async def test_the_second_attempt_goes_to_the_worker_that_answered_last(bus: Connection, workers: Workers) -> None:
    replies = iter([ALLOW, None, ALLOW])
    await workers.serve("policy", answer=lambda _name: next(replies), worker="w-1")
    assert (await emission(bus)).proceeds
    assert (await emission(bus)).proceeds
    *_, first, second = (message.subject for message in workers.asked)
    assert second == f"{first}.w-1"


async def test_a_second_attempt_to_a_worker_that_has_gone_leaves_the_first_one_out(
    bus: Connection, workers: Workers
) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    # The worker tells a name under which nobody listens.
    bus.asker._answered_last["policy"] = "gone"
    replies: list[bytes | None] = [None]
    workers.asked.clear()
    await workers.serve("other", answer=lambda _name: replies[0])
    emitter = BusEmitter(timeout=PATIENCE_S).register(bus.interceptor("other", hedge_after_s=0.02))
    bus.asker._answered_last["other"] = "gone"
    running = asyncio.create_task(emitter.emit_unchecked(tool_call()))
    await until(lambda: len(workers.asked) == 1)
    await asyncio.wait([running], timeout=0.1)
    assert not running.done()
    workers.answer(workers.asked[0], ALLOW)
    assert (await running).proceeds


async def test_only_the_slow_ones_of_a_parallel_profile_are_asked_again(bus: Connection, workers: Workers) -> None:
    await workers.serve("slow", "quick", answer=lambda name: ALLOW if name == "quick" else None)
    emitter = BusEmitter(timeout=PATIENCE_S, composition=CompositionConfig.strictest())
    for name in ("slow", "quick"):
        emitter.register(bus.interceptor(name, hedge_after_s=0.05))
    running = asyncio.create_task(emitter.emit_unchecked(tool_call()))
    await until(lambda: len(workers.asked) == 3)
    assert sorted(workers.names()) == ["quick", "slow", "slow"]
    workers.answer(workers.asked[-1], ALLOW)
    assert (await running).proceeds


async def test_a_declaration_may_declare_a_binding_safe_to_repeat(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    config = {"interceptor": "policy", "hedge_after_ms": 20}
    document = {
        "declaration": "agent-hooks-declaration/1.0",
        "bindings": [{"id": "p", "kind": "hookbus.remote", "config": config, "timeout_ms": 20_000}],
    }
    emitter = BusEmitter.from_declaration_value(document, host_registry(bus))
    context = AgentContextBuilder(agent_id="bot", framework="t", session_id="s").input(content="x")
    running = asyncio.create_task(emitter.emit_unchecked(context))
    await until(lambda: len(workers.asked) == 2)
    workers.answer(workers.asked[1], ALLOW)
    assert (await running).proceeds
    document["bindings"][0]["config"] = {**config, "hedge_after_ms": 0}  # type: ignore[index]
    with pytest.raises(DeclarationError, match="hedge_after_s must be more than 0"):
        BusEmitter.from_declaration_value(document, host_registry(bus))
