"""The failure table, fault by clause: every fault, remote, in every profile, denies with its class and reason."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, CompositionConfig, OnApproval, SynthesisPolicy

import hookbus
from hookbus import Connection, Failure, Message, envelope
from hookbus.failures import BY_ERROR_CODE
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.client.scripted import until

pytestmark = pytest.mark.anyio

PROFILES = [
    CompositionConfig.first_deny(),
    CompositionConfig.first_deny(OnApproval.RESUME),
    CompositionConfig.run_all(),
    CompositionConfig.strictest(),
    CompositionConfig.unanimous(SynthesisPolicy.DENY),
]

#: What a worker does with a question.
Act = Callable[[Connection, Message], None]


def error(code: str, *, status: bytes = b"") -> Act:
    def act(connection: Connection, message: Message) -> None:
        values = {envelope.ERROR_CODE: code, envelope.ERROR: "SomeError"}
        connection.publish(message.reply, b"", envelope.encode(values))

    return act


def body(answer: bytes) -> Act:
    return lambda connection, message: connection.publish(message.reply, answer)


def forged(connection: Connection, message: Message) -> None:
    headers = envelope.encode({envelope.ID: "another"})
    connection.publish(message.reply, b'{"decision":"allow"}', headers)


def status(connection: Connection, message: Message) -> None:
    connection.publish(message.reply, b'{"decision":"allow"}', b"NATS/1.0 409\r\n\r\n")


FAULTS: dict[str, tuple[Failure, Act | None]] = {
    "says nothing": (Failure.SILENT, lambda _connection, _message: None),
    "answers another question": (Failure.FORGED, forged),
    "says 408": (Failure.EXPIRED, error("408")),
    "nobody serves": (Failure.ABSENT, None),
    "says 429": (Failure.BUSY, error("429")),
    "says 500": (Failure.RAISED, error("500")),
    "says 400": (Failure.REJECTED, error("400")),
    "says a code nobody knows": (Failure.RAISED, error("418")),
    "says an error and a permit": (
        Failure.RAISED,
        lambda connection, message: connection.publish(
            message.reply, b'{"decision":"allow"}', envelope.encode({envelope.ERROR_CODE: "500"})
        ),
    ),
    "says a status that is none of ours": (Failure.RAISED, status),
    **{
        f"answers {answer[:40]!r}": (Failure.MALFORMED, body(answer))
        for answer in (
            b"",
            b"null",
            b"allow",
            b'{"decision":"deny","decision":"allow"}',
            b'\xef\xbb\xbf{"decision":"allow"}',
            b'{"decision":"allow"}\x00',
            b'{"decision":"allow"} {}',
            b'{"decision":"allow","reason":"\\ud800"}',
            b'{"decision":"allow","reason":"\xff"}',
            b'{"decision":"transform","transform":{"path":"$target","value":NaN}}',
            b'{"decision":"transform","transform":{"path":"$target","value":Infinity}}',
            b'{"decision":"transform","transform":{"path":"$target","value":%s}}' % (b"[" * 200 + b"]" * 200),
            b'{"decision":"ALLOW"}',
            b'{"Decision":"allow"}',
            b'{"verdict":{"decision":"deny"},"decision":"allow"}',
        )
    },
}


@asynccontextmanager
async def fault(server: EmbeddedServer, act: Act | None) -> AsyncIterator[Connection]:
    """A bus on which ``faulty`` does as told and ``good`` allows everything."""
    async with (
        hookbus.connect(server.url, tenant="faults") as bus,
        hookbus.connect(server.url, tenant="faults") as w,
    ):
        servings = []
        for name, does in (("faulty", act), ("good", body(b'{"decision":"allow"}'))):
            if does is not None:
                pattern = f"hb.v1.faults.ctx.{name}.*.*"
                servings.append(w.serve([pattern], name, functools.partial(does, w), on_refused=print))
        await w.flush(timeout_s=5)
        yield bus
        for serving in servings:
            await serving.drain(timeout_s=5)


def context(**args: Any) -> dict[str, Any]:
    builder = AgentContextBuilder(agent_id="bot", framework="test", session_id="s")
    return builder.pre_tool_call(call_id="c", name="t", args={"secret": "payload words", **args})


@pytest.mark.parametrize("composition", PROFILES, ids=lambda c: f"{c.profile.value}-{c.on_approval}")
@pytest.mark.parametrize("name", FAULTS)
async def test_every_fault_denies_in_its_slot_in_every_profile(
    shared_server: EmbeddedServer, name: str, composition: CompositionConfig
) -> None:
    failure, act = FAULTS[name]
    async with fault(shared_server, act) as bus:
        # Where silence is the fault the deadline is what ends it; everything else ends by itself.
        timeout_s = 0.05 if failure in (Failure.SILENT, Failure.FORGED) else 20.0
        emitter = BusEmitter(composition=composition)
        emitter.register(bus.interceptor("good"), timeout_s=20.0)
        emitter.register(bus.interceptor("faulty"), timeout_s=timeout_s)
        record = await emitter.emit_unchecked(context())
        assert not record.proceeds
        summary = record.verdicts[1]
        assert (summary.decision.value, summary.reason, summary.name) == ("deny", failure.reason, "faulty")
        if composition.profile.value != "parallel/unanimous":
            assert record.decided_by == 1
            assert record.verdict.message == failure.sentence("faulty")
        assert "payload words" not in str(record.to_wire())
        assert bus.in_flight == 0


@pytest.mark.parametrize("composition", PROFILES, ids=lambda c: f"{c.profile.value}-{c.on_approval}")
async def test_a_bus_that_is_down_denies_in_every_profile(
    server: EmbeddedServer, composition: CompositionConfig
) -> None:
    async with hookbus.connect(server.url) as bus:
        server.kill()
        await until(lambda: not bus.is_connected)
        emitter = BusEmitter(composition=composition).register(bus.interceptor("policy"))
        record = await emitter.emit_unchecked(context())
        assert record.verdicts[0].reason == Failure.BUS_DOWN.reason
        assert not record.proceeds


@pytest.mark.parametrize("composition", PROFILES, ids=lambda c: f"{c.profile.value}-{c.on_approval}")
async def test_an_agent_at_its_bound_denies_in_every_profile(
    shared_server: EmbeddedServer, composition: CompositionConfig
) -> None:
    async with (
        hookbus.connect(shared_server.url, tenant="bound", max_in_flight=1) as bus,
        hookbus.connect(shared_server.url, tenant="bound") as w,
    ):
        asked: list[Message] = []
        w.serve(["hb.v1.bound.ctx.policy.*.*"], "policy", asked.append, on_refused=print)
        await w.flush(timeout_s=5)
        emitter = BusEmitter(composition=composition, timeout=20.0).register(bus.interceptor("policy"))
        first = asyncio.create_task(emitter.emit_unchecked(context()))
        await until(lambda: bool(asked))
        second = await emitter.emit_unchecked(context())
        assert second.verdicts[0].reason == Failure.OPEN.reason
        w.publish(asked[0].reply, b'{"decision":"allow"}')
        assert (await first).proceeds


@pytest.mark.parametrize("composition", PROFILES, ids=lambda c: f"{c.profile.value}-{c.on_approval}")
@pytest.mark.parametrize(
    "bad", [{"x": float("nan")}, {"x": float("inf")}, {"x": "\ud800"}, {"x": 2**60}, {"x": {1}}, {1: "x"}]
)
async def test_a_context_outside_its_domain_denies_and_is_not_sent(
    shared_server: EmbeddedServer, composition: CompositionConfig, bad: dict[Any, Any]
) -> None:
    async with hookbus.connect(shared_server.url, tenant="domain") as bus:
        emitter = BusEmitter(composition=composition).register(bus.interceptor("policy"))
        made = context()
        made["target"] = made["tool_call"]["args"] = bad
        record = await emitter.emit_unchecked(made)
        assert record.verdict.reason == Failure.UNSENDABLE.reason
        assert record.verdicts == ()
        assert record.input_identity is record.enforced_identity is None


def test_the_table_is_closed_and_holds_no_permit() -> None:
    assert {failure.reason for failure in Failure} == {
        "host_error:interceptor_timeout",
        "host_error:interceptor_failed",
        "host_error:verdict_invalid",
        "host_error:context_invalid",
    }
    assert set(BY_ERROR_CODE) == {"400", "408", "429", "500"}
    tested = {failure for failure, _ in FAULTS.values()}
    elsewhere = {Failure.BUS_DOWN, Failure.OPEN, Failure.REFUSED, Failure.UNSENDABLE, Failure.BREAKER}
    assert tested | elsewhere == set(Failure)
