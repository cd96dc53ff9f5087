"""Vectors about workers: a real worker, asked and looked at by a plain socket."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import hookbus
from hookbus import Connection, envelope
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker as RealWorker
from tests.contract.documents import exact, place
from tests.contract.raw_nats import RawMessage, RawNats
from tests.contract.run_asking import CONTEXTS, LONG_S
from tests.contract.signatures import covered, public, sha256, sign, write_seed
from tests.contract.vectors import ErrorAnswer, Service, Worker, octets

SUBJECT = "hb.v1.default.ctx.policy.pre_tool_call.travel"
#: Where markers and occupying questions are answered to; no vector uses it.
ASIDE = "hb.v1.default.ans.policy.aside.c0ffee."
INBOX = "_INBOX.marker"


class Interceptor:
    """Does what a vector says, and tells by session ids what it was asked."""

    def __init__(self, behaviour: str, *, repeat_aware: bool = False) -> None:
        self._behaviour = behaviour
        self.repeat_aware = repeat_aware
        self.called: asyncio.Queue[str] = asyncio.Queue()
        self.release = asyncio.Event()
        self.cut_off = asyncio.Event()

    async def intercept(self, context: dict[str, Any]) -> object:
        session = context["session"]["id"]
        self.called.put_nowait(session)
        if session == "occupying":
            await self.release.wait()
        elif session != "marker":
            return await self._behave()
        return {"decision": "allow"}

    async def _behave(self) -> object:
        match self._behaviour:
            case "raises":
                raise ValueError("a message that is not told")
            case "returns_nan":
                return {"decision": "allow", "message": float("nan")}
            case "returns_a_string":
                return "allow"
            case "answers_1_mib_too_much":
                return {"decision": "allow", "message": "a" * (1 << 20)}
            case "hangs":
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cut_off.set()
        return {"decision": "allow"}


async def worker(vector: Worker, server: EmbeddedServer) -> None:
    interceptor = Interceptor(vector.interceptor, repeat_aware=vector.repeat_aware)
    body, headers = octets(vector.body), _timed(octets(vector.headers))
    if vector.signed_by is not None:
        headers = _signed(vector, headers, body)
    async with _connected(vector, server) as bus, RawNats(server.port) as raw:
        raw.subscribe(f"{ASIDE}*")
        if vector.reply is not None:
            raw.subscribe(vector.reply)
        await raw.flush()
        async with RealWorker(bus, interceptor, name="policy", concurrency=vector.concurrency) as real:
            subject = vector.subject.replace("<id>", real.id)
            for number in range(vector.already_running):
                _ask_aside(raw, "occupying", str(number))
            for _ in range(vector.already_running):
                assert await interceptor.called.get() == "occupying"
            raw.publish(subject, body, headers, vector.reply or "")
            if vector.interceptor == "hangs":
                await interceptor.cut_off.wait()
            if vector.second_time is not None:
                raw.publish(subject, body, headers, vector.reply or "")
            # Questions are taken in order, so what the vector's question brings is here with the marker's answer.
            _ask_aside(raw, "marker", "marker")
            answers = await _until(raw, f"{ASIDE}marker")
            wanted = (vector.verdict or vector.error) is not None
            async with asyncio.timeout(LONG_S):
                while len(answers) < wanted + (vector.second_time is not None):
                    answers.append(await raw.next())
            interceptor.release.set()
    called = []
    while not interceptor.called.empty():
        called.append(interceptor.called.get_nowait())
    times = 2 if vector.second_time == "the_same" else 1
    assert [session for session in called if session != "marker"] == (["s-1"] * times if vector.runs else [])
    assert all(answer.subject == vector.reply for answer in answers)
    if isinstance(vector.second_time, ErrorAnswer):
        # An error needs no call, so it may come first.
        second = next(answer for answer in answers if answer.body == b"")
        _assert_error(second, vector.second_time)
        answers.remove(second)
    elif vector.second_time is not None:
        first, second = answers
        assert first.body == second.body
        answers.remove(second)
    if not wanted:
        assert answers == []
        return
    (answer,) = answers
    read = _headers(answer)
    for name, pattern in vector.answer_headers.items():
        assert (name in read) == (pattern is not None), name
        assert pattern is None or re.fullmatch(pattern, read[name]), name
    if vector.error is not None:
        _assert_error(answer, vector.error)
    else:
        assert vector.verdict is not None
        assert "Nats-Service-Error-Code" not in read
        assert exact(json.loads(answer.body)) == exact(json.loads(vector.verdict))
    assert ("Hb-Signature" in read) == ("Hb-Key" in read) == (vector.key is not None)
    if vector.key is not None:
        over = covered(
            "answer",
            *("default", sha256(_question_covered(vector.subject, headers, vector.reply or "", body))),
            *(read["Hb-Worker"], read.get("Hb-Policy", ""), sha256(answer.body)),
        )
        assert (read["Hb-Key"], read["Hb-Signature"]) == (public(vector.key), sign(vector.key, over))


def _assert_error(answer: RawMessage, error: ErrorAnswer) -> None:
    headers = _headers(answer)
    assert answer.body == b""
    assert headers["Nats-Service-Error-Code"] == error.code
    assert headers["Nats-Service-Error"] == error.error
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_.]{0,127}", error.error)
    assert ("Retry-After-Ms" in headers) == (error.code == "429")


def _connected(vector: Worker, server: EmbeddedServer) -> Connection:
    """Return a connection with the vector's key and trust, which are read when it is made."""
    with tempfile.TemporaryDirectory() as folder:
        key = trust = None
        if vector.key is not None:
            key = write_seed(vector.key, Path(folder) / "key")
        if vector.agent_keys is not None:
            trust = Path(folder) / "trust.toml"
            keys = [public(name) for name in vector.agent_keys]
            trust.write_text(f"[agents]\ntravel = {keys}\naside = {[public('agent')]}\n[workers]\n")
        return hookbus.connect(server.url, signing_key=key, trust=trust)


def _question_covered(subject: str, headers: bytes, reply: str, body: bytes) -> bytes:
    """Return what the signature of a question covers, as clause C5.2 says."""
    _, _, tenant, _, *tokens = subject.split(".")
    values = envelope.parse(headers).values
    return covered(
        "question",
        *(tenant, *tokens[:3], values.get("Hb-Id", ""), values.get("Hb-Expires-Ms", ""), reply),
        sha256(body),
    )


def _signed(vector: Worker, headers: bytes, body: bytes) -> bytes:
    """Return *headers* with the vector's signature, and with what was changed after it was made."""
    assert vector.signed_by is not None
    changed = vector.changed_after_signing
    subject = vector.subject.replace(".travel", ".payroll") if changed == "agent" else vector.subject
    reply = f"{vector.reply}0" if changed == "reply" else vector.reply or ""
    over = _question_covered(subject, headers, reply, b"{}" if changed == "body" else body)
    key = public("agent" if changed == "key" else vector.signed_by)
    return _with_signature(headers, sign(vector.signed_by, over), key)


def _with_signature(headers: bytes, signature: str, key: str) -> bytes:
    lines = f"Hb-Signature: {signature}\r\nHb-Key: {key}\r\n\r\n"
    return headers.removesuffix(b"\r\n") + lines.encode()


def _ask_aside(raw: RawNats, session: str, place: str) -> None:
    """Ask as the agent ``aside``, signed, whatever the vector is about."""
    body = json.dumps(CONTEXTS["pre_tool_call"] | {"session": {"id": session}, "agent": {"id": "aside"}}).encode()
    headers = _timed(f"NATS/1.0\r\nHb-Id: {place}\r\nHb-Expires-Ms: <now+60000>\r\n\r\n".encode())
    subject, reply = SUBJECT.replace(".travel", ".aside"), ASIDE + place
    signature = sign("agent", _question_covered(subject, headers, reply, body))
    headers = (
        headers.removesuffix(b"\r\n") + f"Hb-Signature: {signature}\r\nHb-Key: {public('agent')}\r\n\r\n".encode()
    )
    raw.publish(subject, body, headers, reply)


async def service(vector: Service, server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(vector.reply)
        raw.subscribe(INBOX)
        await raw.flush()
        async with RealWorker(bus, Interceptor("allows"), name="policy") as real:
            raw.publish(vector.subject.replace("<id>", real.id), b"", reply=vector.reply)
            raw.publish(f"$SRV.PING.policy.{real.id}", b"", reply=INBOX)
            answers = await _until(raw, INBOX)
            if vector.members is None:
                assert answers == []
                return
            (answer,) = answers
            document = json.loads(answer.body)
            for pointer, member in vector.members.items():
                assert place(document, pointer) == (real.id if member == "<id>" else member), pointer


async def _until(raw: RawNats, subject: str) -> list[RawMessage]:
    """Return the messages that come before the one on *subject*, without the server's own 503."""
    before = []
    while (message := await raw.next()).subject != subject:
        if not message.headers.startswith(b"NATS/1.0 503"):
            before.append(message)
    return before


def _timed(headers: bytes) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return re.sub(rb"<now([+-]\d+)>", lambda found: str(now_ms + int(found[1])).encode(), headers)


def _headers(answer: RawMessage) -> dict[str, str]:
    lines = answer.headers.decode("ascii").split("\r\n")
    assert (lines[0], lines[-2:]) == ("NATS/1.0", ["", ""])
    return dict(line.split(": ", 1) for line in lines[1:-2])
