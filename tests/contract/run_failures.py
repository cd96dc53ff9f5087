"""Vectors about what each failure becomes: the situation is brought about, and the emission's record read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from agent_hooks import (
    ALLOW,
    ApprovalOutcome,
    ApprovalRequest,
    ApprovalResolution,
    EnforcementMode,
    InterceptionRecord,
    Verdict,
)

import hookbus
from hookbus import Connection, Failure
from hookbus.context import outgoing, prepare
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_client.asking import judged
from tests.contract.raw_nats import RawNats
from tests.contract.run_asking import CONTEXTS, LONG_S, composition
from tests.contract.vectors import ApprovalSeam, Happens

SHORT_S = 0.15
#: A word that stands in every payload here, and must not stand in a record.
CANARY = "canary"
QUESTIONS = "hb.v1.default.ctx.policy.>"


async def happens(vector: Happens, server: EmbeddedServer) -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    record = await SITUATIONS[vector.situation](server)
    assert clock() - began < LONG_S / 2
    failure = Failure[vector.failure.upper()]
    assert (record.verdict.decision.value, record.verdict.reason) == ("deny", failure.reason)
    assert record.verdict.message is not None
    assert record.verdict.message.startswith(vector.message or failure.sentence("policy"))
    assert record.proceeds == (record.mode is EnforcementMode.EVALUATE_ONLY)
    assert CANARY not in json.dumps(record.to_wire())


async def _emit(
    bus: Connection,
    timeout_s: float = LONG_S,
    *,
    mode: EnforcementMode = EnforcementMode.ENFORCE,
    target: str = CANARY,
) -> InterceptionRecord:
    emitter = BusEmitter(timeout=timeout_s, mode=mode)
    emitter.register(bus.interceptor("policy"))
    return await emitter.emit_unchecked(CONTEXTS["pre_tool_call"] | {"target": target})


async def _nobody_subscribed(server: EmbeddedServer) -> InterceptionRecord:
    async with hookbus.connect(server.url) as bus:
        return await _emit(bus)


async def _silence(server: EmbeddedServer) -> InterceptionRecord:
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        return await _emit(bus, SHORT_S)


async def _answered(
    server: EmbeddedServer, body: bytes, headers: bytes = b"", timeout_s: float = LONG_S
) -> InterceptionRecord:
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        async with asyncio.TaskGroup() as group:
            emission = group.create_task(_emit(bus, timeout_s))
            question = await raw.next()
            raw.publish(question.reply, body, headers)
        return emission.result()


async def _forged_answer(server: EmbeddedServer) -> InterceptionRecord:
    # Time enough for the answer to arrive; this one situation has to be waited out.
    return await _answered(server, b'{"decision":"allow"}', b"NATS/1.0\r\nHb-Id: canary\r\n\r\n", 1.0)


async def _rubbish_answer(server: EmbeddedServer) -> InterceptionRecord:
    return await _answered(server, b'{"decision":"canary","canary":"canary"}')


async def _error_answer(server: EmbeddedServer) -> InterceptionRecord:
    return await _answered(
        server,
        b'{"decision":"allow","message":"canary"}',
        b"NATS/1.0\r\nNats-Service-Error-Code: canary\r\nNats-Service-Error: canary\r\n\r\n",
    )


async def _server_gone(_server: EmbeddedServer) -> InterceptionRecord:
    with EmbeddedServer() as own:
        async with hookbus.connect(own.url) as bus:
            own.kill()
            return await _emit(bus)


async def _meanwhile(act: Callable[[EmbeddedServer], None], timeout_s: float) -> InterceptionRecord:
    with EmbeddedServer() as own:
        async with hookbus.connect(own.url) as bus, RawNats(own.port) as raw:
            raw.subscribe(QUESTIONS, "policy")
            await raw.flush()
            async with asyncio.TaskGroup() as group:
                emission = group.create_task(_emit(bus, timeout_s))
                await raw.next()
                act(own)
            own.resume()
            return emission.result()


async def _server_dies_meanwhile(_server: EmbeddedServer) -> InterceptionRecord:
    return await _meanwhile(EmbeddedServer.kill, LONG_S)


async def _server_stops_meanwhile(_server: EmbeddedServer) -> InterceptionRecord:
    return await _meanwhile(EmbeddedServer.pause, 0.5)


async def _with_permissions(permissions: str) -> InterceptionRecord:
    config = f"authorization {{ users: [{{ user: agent, password: agent, permissions: {{ {permissions} }} }}] }}"
    with EmbeddedServer(config=config) as own:
        async with hookbus.connect(own.url.replace("//", "//agent:agent@")) as bus:
            return await _emit(bus)


async def _publish_not_permitted(_server: EmbeddedServer) -> InterceptionRecord:
    return await _with_permissions('publish: "nothing", subscribe: "hb.v1.default.ans.>"')


async def _answers_not_permitted(_server: EmbeddedServer) -> InterceptionRecord:
    return await _with_permissions('publish: "hb.v1.default.ctx.>", subscribe: "nothing"')


async def _in_flight_limit(server: EmbeddedServer) -> InterceptionRecord:
    presented = CONTEXTS["pre_tool_call"]
    async with hookbus.connect(server.url, max_in_flight=1) as bus, RawNats(server.port) as raw:
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        sent = outgoing(prepare(presented))
        (first,) = bus.asker.ask(sent, [(bus.interceptor("policy"), LONG_S)], judged)
        record = await _emit(bus)
        assert first.outcome is None
        bus.asker.give_up(first)
        return record


async def _question_too_large(server: EmbeddedServer) -> InterceptionRecord:
    presented = CONTEXTS["pre_tool_call"] | {"target": "a" * (1 << 20)}
    async with hookbus.connect(server.url) as bus:
        # The connection refuses by itself what an emitter has not measured.
        (question,) = bus.asker.ask(outgoing(prepare(presented)), [(bus.interceptor("policy"), LONG_S)], judged)
        assert question.outcome is Failure.UNSENDABLE
        return await _emit(bus, target=presented["target"])


async def _budget_spent(server: EmbeddedServer) -> InterceptionRecord:
    """Both interceptors are called ``policy``: the second's deny is the same as the first's."""
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        emitter = BusEmitter(composition=composition("sequential/run_all"), timeout=LONG_S, budget_s=SHORT_S)
        emitter.register(bus.interceptor("policy"))
        emitter.register(bus.interceptor("policy"))
        record = await emitter.emit_unchecked(dict(CONTEXTS["pre_tool_call"]))
        assert [summary.reason for summary in record.verdicts] == [Failure.SILENT.reason] * 2
        assert await bus.flush(timeout_s=LONG_S)
        await raw.flush()
        assert len(raw.waiting()) == 1
        return record


async def _breaker(server: EmbeddedServer, mode: EnforcementMode) -> InterceptionRecord:
    """Twice silent opens the breaker; the trial that it lets through at once is silent, too."""
    async with (
        hookbus.connect(server.url, breaker_opens_after=2, breaker_trial_interval_s=LONG_S) as bus,
        RawNats(server.port) as raw,
    ):
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        for _ in range(3):
            await _emit(bus, SHORT_S)
        enforcing = mode is EnforcementMode.ENFORCE
        record = await _emit(bus, LONG_S if enforcing else SHORT_S, mode=mode)
        assert await bus.flush(timeout_s=LONG_S)
        await raw.flush()
        assert len(raw.waiting()) == (3 if enforcing else 4)
        return record


async def _breaker_open(server: EmbeddedServer) -> InterceptionRecord:
    return await _breaker(server, EnforcementMode.ENFORCE)


async def _breaker_open_in_evaluate_only(server: EmbeddedServer) -> InterceptionRecord:
    return await _breaker(server, EnforcementMode.EVALUATE_ONLY)


SITUATIONS: dict[str, Callable[[EmbeddedServer], Awaitable[InterceptionRecord]]] = {
    "nobody_subscribed": _nobody_subscribed,
    "silence": _silence,
    "forged_answer": _forged_answer,
    "rubbish_answer": _rubbish_answer,
    "error_answer": _error_answer,
    "server_gone": _server_gone,
    "server_dies_meanwhile": _server_dies_meanwhile,
    "server_stops_meanwhile": _server_stops_meanwhile,
    "publish_not_permitted": _publish_not_permitted,
    "answers_not_permitted": _answers_not_permitted,
    "in_flight_limit": _in_flight_limit,
    "question_too_large": _question_too_large,
    "budget_spent": _budget_spent,
    "breaker_open": _breaker_open,
    "breaker_open_in_evaluate_only": _breaker_open_in_evaluate_only,
}


class Resolver:
    """An approval resolver that behaves as told."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour

    async def resolve(self, request: ApprovalRequest) -> ApprovalResolution:
        match self._behaviour:
            case "gives_up":
                return ApprovalResolution(ApprovalOutcome.UNRESOLVED, request.context_identity)
            case "hangs":
                await asyncio.Event().wait()
            case "raises":
                raise ValueError("a message that is not told")
        # The time that a person takes: more than the whole budget.
        await asyncio.sleep(2 * SHORT_S)
        return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, ALLOW)


async def seam(vector: ApprovalSeam, server: EmbeddedServer) -> None:
    hangs = vector.resolver == "hangs"
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(QUESTIONS, "policy")
        await raw.flush()
        emitter = BusEmitter(
            resolver=Resolver(vector.resolver),  # type: ignore[arg-type]  # an async resolver is one, too
            timeout=2 * SHORT_S if hangs else LONG_S,
            budget_s=None if hangs else SHORT_S,
        )
        emitter.register(bus.interceptor("policy"), timeout_s=LONG_S)
        async with asyncio.TaskGroup() as group:
            emission = group.create_task(emitter.emit_unchecked(dict(CONTEXTS["pre_tool_call"])))
            question = await raw.next()
            raw.publish(question.reply, b'{"decision":"deny","reason":"ask","approval":{}}')
        verdict: Verdict = emission.result().verdict
    if vector.reason is None:
        assert verdict.decision.permits
    else:
        assert (verdict.decision.value, verdict.reason) == ("deny", vector.reason)
        assert "a message that is not told" not in (verdict.message or "")
