"""Vectors about what an agent sends and when, seen by a plain socket behind a real server."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from pathlib import Path
from unittest import mock

import msgspec
from agent_hooks import CompositionConfig, EnforcementMode
from agent_hooks.composition import CompositionProfile

import hookbus
from hookbus.context import outgoing, prepare
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_client.asking import judged
from tests.contract.documents import changed, exact, held, place
from tests.contract.raw_nats import RawMessage, RawNats
from tests.contract.signatures import covered, public, sha256, sign, write_seed
from tests.contract.vectors import Asked, ContextOut, Evaluated, HeadersOf, load, octets

CONTEXTS = load()[1]
ALLOW = b'{"decision":"allow"}'
#: Longer than anything here takes, shorter than a test's timeout.
LONG_S = 20.0


async def context(vector: ContextOut, server: EmbeddedServer) -> None:
    presented = changed(CONTEXTS[vector.context], vector.put)
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe("hb.v1.default.ctx.policy.>", "policy")
        await raw.flush()
        emitter = BusEmitter(identity_provider=vector.identity_provider, timeout=LONG_S)
        emitter.register(bus.interceptor("policy"))
        async with asyncio.TaskGroup() as group:
            emission = group.create_task(emitter.emit_unchecked(presented))
            if vector.refused is None:
                question = await raw.next()
                raw.publish(question.reply, ALLOW)
        record = emission.result()
        if vector.refused is not None:
            assert (record.verdict.decision.value, record.verdict.reason) == ("deny", vector.refused)
            assert record.verdict.message is not None
            assert record.verdict.message.startswith("unsendable: ")
            assert await bus.flush(timeout_s=LONG_S)
            await raw.flush()
            assert raw.waiting() == []
            return
        body = json.loads(question.body.decode("utf-8"))
        assert exact(body) == exact(presented)
        for thing in vector.holds:
            assert exact(place(body, thing.at)) == exact(held(thing))
        assert record.verdict.decision.value == "allow"


async def question_headers(vector: HeadersOf, server: EmbeddedServer) -> None:
    presented = CONTEXTS["pre_tool_call"]
    sent = msgspec.structs.replace(
        outgoing(prepare(presented)),
        traceparent=vector.traceparent,
        tracestate=vector.tracestate,
    )
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe("hb.v1.default.ctx.policy.>", "policy")
        await raw.flush()
        with (
            mock.patch("os.urandom", return_value=bytes.fromhex(vector.question_id)),
            mock.patch("time.time_ns", return_value=vector.now_unix_ms * 1_000_000),
        ):
            (question,) = bus.asker.ask(sent, [(bus.interceptor("policy"), vector.budget_ms / 1000)], judged)
        assert (await raw.next()).headers == octets(vector.headers)
        bus.asker.give_up(question)


async def asked(vector: Asked, server: EmbeddedServer) -> None:
    presented = CONTEXTS["pre_tool_call"] | {
        "interception_point": vector.point,
        "agent": {"id": vector.agent, "framework": "hookbus"},
    }
    questions: list[RawMessage] = []
    async with RawNats(server.port) as raw:
        with tempfile.TemporaryDirectory() as folder:
            key = write_seed("agent", Path(folder) / "key") if vector.signed else None
            buses = [hookbus.connect(server.url, signing_key=key) for _ in range(2)]
        raw.subscribe("hb.v1.*.ctx.>", "everything")
        await raw.flush()
        for bus, times in zip(buses, (2, 1), strict=True):
            async with bus:
                budget_s = None if vector.emission_budget_ms is None else vector.emission_budget_ms / 1000
                emitter = BusEmitter(timeout=vector.timeout_ms / 1000, budget_s=budget_s)
                emitter.register(bus.interceptor(vector.interceptor))
                for _ in range(times):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(emitter.emit_unchecked(dict(presented)))
                        questions.append(await raw.next())
                        raw.publish(questions[-1].reply, ALLOW)
    for question in questions:
        assert re.fullmatch(vector.subject, question.subject)
        assert re.fullmatch(vector.reply, question.reply)
        headers = _headers(question)
        for name, pattern in vector.headers.items():
            assert re.fullmatch(pattern, headers[name]), name
        assert ("Hb-Signature" in headers) == ("Hb-Key" in headers) == vector.signed
        if vector.signed:
            tokens = question.subject.split(".")
            over = covered(
                "question",
                *(tokens[2], *tokens[4:7], headers["Hb-Id"], headers["Hb-Expires-Ms"], question.reply),
                sha256(question.body),
            )
            assert (headers["Hb-Key"], headers["Hb-Signature"]) == (public("agent"), sign("agent", over))
    # Ids and reply subjects are new for every question, the connection's token for every connection.
    assert len({_headers(question)["Hb-Id"] for question in questions}) == 3
    assert len({question.reply for question in questions}) == 3
    first, second, other = (question.reply.split(".")[6] for question in questions)
    assert first == second != other


async def evaluated(vector: Evaluated, server: EmbeddedServer) -> None:
    order: list[str] = []
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        emitter = BusEmitter(
            mode=EnforcementMode.EVALUATE_ONLY,
            composition=composition(vector.profile),
            timeout=LONG_S,
        )
        for name in vector.answers:
            emitter.register(bus.interceptor(name))
            raw.subscribe(f"hb.v1.default.ctx.{name}.>", name)
        await raw.flush()

        async def answer_all() -> None:
            while True:
                question = await raw.next()
                order.append(question.subject.split(".")[4])
                raw.publish(question.reply, octets(vector.answers[order[-1]]))

        answering = asyncio.create_task(answer_all())
        record = await emitter.emit_unchecked(dict(CONTEXTS["pre_tool_call"]))
        await raw.flush()
        answering.cancel()
        await asyncio.wait([answering])
    assert order == list(vector.asked)
    assert [summary.name for summary in record.verdicts] == list(vector.asked)


def composition(profile: str) -> CompositionConfig:
    """Return the configuration of *profile* with the specification's defaults."""
    return {
        CompositionProfile.SEQUENTIAL_FIRST_DENY: CompositionConfig.first_deny,
        CompositionProfile.SEQUENTIAL_RUN_ALL: CompositionConfig.run_all,
        CompositionProfile.PARALLEL_UNANIMOUS: CompositionConfig.unanimous,
        CompositionProfile.PARALLEL_STRICTEST: CompositionConfig.strictest,
    }[CompositionProfile(profile)]()


def _headers(question: RawMessage) -> dict[str, str]:
    """Read the headers the simplest way: what is asked must be readable to the simplest reader."""
    lines = question.headers.decode("ascii").split("\r\n")
    assert (lines[0], lines[-2:]) == ("NATS/1.0", ["", ""])
    return dict(line.split(": ", 1) for line in lines[1:-2])
