"""Vectors about answers: their exact bytes, published by a plain socket to a question really asked."""

from __future__ import annotations

import asyncio
import json

import pytest
from agent_hooks import Decision, InterceptionEmitter

import hookbus
from hookbus import Connection, Failure, Undecodable, codec, envelope
from hookbus.context import outgoing, prepare
from hookbus.questions import Answer, Question
from hookbus.server import EmbeddedServer
from hookbus_client.asking import judged
from tests.contract.documents import exact
from tests.contract.raw_nats import RawMessage, RawNats
from tests.contract.run_asking import CONTEXTS, LONG_S
from tests.contract.signatures import covered, public, sha256, sign
from tests.contract.vectors import Answers, GivenAnswer, octets

#: The id that the vectors give their question.
GIVEN_ID = "0123456789abcdef0123456789abcdef"


def trap(vector: Answers) -> None:
    """The strict parse refuses by itself: under another host's emitter no other gate stands behind it."""
    for answer in vector.answers:
        with pytest.raises(Undecodable):
            codec.parse_strictly(octets(answer.body))


async def trap_elsewhere(vector: Answers, server: EmbeddedServer) -> None:
    """A remote interceptor denies a trap under the standard's own emitter, too."""
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe("hb.v1.default.ctx.policy.>", "policy")
        await raw.flush()
        emitter = InterceptionEmitter().register(bus.interceptor("policy"), "policy")
        async with asyncio.TaskGroup() as group:
            emission = group.create_task(emitter.emit_unchecked(dict(CONTEXTS["pre_tool_call"])))
            question = await raw.next()
            for answer in vector.answers:
                raw.publish(question.reply, octets(answer.body), octets(answer.headers))
        assert emission.result().verdict.decision is Decision.DENY


async def answers(vector: Answers, server: EmbeddedServer) -> None:
    presented = CONTEXTS["pre_tool_call"]
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe("hb.v1.default.ctx.policy.>", "policy")
        await raw.flush()
        if vector.answered_before_by is not None:
            await _answer_one_as(vector.answered_before_by, bus, raw)
        sent = outgoing(prepare(presented))
        keys = None if vector.keys is None else [public(name) for name in vector.keys]
        (question,) = bus.asker.ask(sent, [(bus.interceptor("policy", keys=keys), LONG_S)], judged)
        attempts = [await raw.next()]
        if vector.attempts == 2:
            bus.asker.repeat(question, sent, LONG_S)
            attempts.append(await raw.next())
            assert attempts[0].body == attempts[1].body
            assert attempts[1].subject == (vector.directed_to or attempts[0].subject)
            assert attempts[0].reply != attempts[1].reply
        assert all(f"\r\nHb-Id: {question.id}\r\n".encode() in attempt.headers for attempt in attempts)
        replies = {
            "question": attempts[0].reply,
            "second": attempts[-1].reply,
            "nobody": f"{attempts[0].reply}000",
        }
        for answer in vector.answers:
            headers = octets(answer.headers)
            for given, real in ((GIVEN_ID, question.id), (GIVEN_ID.upper(), question.id.upper())):
                headers = headers.replace(given.encode(), real.encode())
            if answer.signed_by is not None:
                headers = _signed(answer, attempts[0], headers)
            raw.publish(replies[answer.to], octets(answer.body), headers)
        # Two round trips: the server has handed on all of it, and the agent has read all of it.
        await raw.flush()
        assert await bus.flush(timeout_s=LONG_S)
        bus.asker.give_up(question)
        assert bus.is_connected
        assert bus.reconnects == 0
        assert bus.dropped_answers == dict(vector.dropped)
    verdict, failure, reason = _outcome(question)
    assert (failure, reason) == (vector.failure, vector.reason)
    assert verdict == (None if vector.verdict is None else exact(json.loads(vector.verdict)))


def _signed(answer: GivenAnswer, asked: RawMessage, headers: bytes) -> bytes:
    """Return *headers* with the signature of an answer to *asked*, and with what was changed after it."""
    assert answer.signed_by is not None
    block = envelope.parse(headers).values
    _, _, tenant, _, interceptor, point, agent = asked.subject.split(".")
    question = envelope.parse(asked.headers).values
    changed = answer.changed_after_signing
    reply = f"{asked.reply}0" if changed == "question" else asked.reply
    over_question = covered(
        "question",
        *(tenant, interceptor, point, agent, question["Hb-Id"], question["Hb-Expires-Ms"], reply),
        sha256(asked.body),
    )
    body = b"another body" if changed == "body" else octets(answer.body)
    policy = "another policy" if changed == "policy" else block.get("Hb-Policy", "")
    over = covered("answer", tenant, sha256(over_question), block.get("Hb-Worker", ""), policy, sha256(body))
    key = public("worker" if changed == "key" else answer.signed_by)
    return envelope.encode(block | {"Hb-Signature": sign(answer.signed_by, over), "Hb-Key": key})


async def _answer_one_as(worker: str, bus: Connection, raw: RawNats) -> None:
    presented = CONTEXTS["pre_tool_call"]
    sent = outgoing(prepare(presented))
    settled = asyncio.Event()
    bus.asker.ask(sent, [(bus.interceptor("policy"), LONG_S)], judged, settled.set)
    headers = f"NATS/1.0\r\nHb-Worker: {worker}\r\n\r\n".encode()
    raw.publish((await raw.next()).reply, b'{"decision":"allow"}', headers)
    await settled.wait()


def _outcome(question: Question) -> tuple[str | None, str | None, str | None]:
    """Return the verdict as exact text, or the class of failure and the reserved reason."""
    outcome = question.outcome
    if isinstance(outcome, Answer):
        verdict, valid = outcome.judgement
        if valid:
            return exact(verdict.to_wire()), None, None
        return None, Failure.MALFORMED.label, verdict.reason.value
    assert outcome is not None
    return None, outcome.label, outcome.reason
