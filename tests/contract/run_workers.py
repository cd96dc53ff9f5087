"""Vectors about workers: a real worker, asked and looked at by a plain socket."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker as RealWorker
from tests.contract.documents import exact, place
from tests.contract.raw_nats import RawMessage, RawNats
from tests.contract.run_asking import CONTEXTS, LONG_S
from tests.contract.vectors import Service, Worker, octets

SUBJECT = "hb.v1.default.ctx.policy.pre_tool_call.travel"
#: Where markers and occupying questions are answered to; no vector uses it.
ASIDE = "hb.v1.default.ans.policy.travel.aside."
INBOX = "_INBOX.marker"


class Interceptor:
    """Does what a vector says, and tells by session ids what it was asked."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour
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
    interceptor = Interceptor(vector.interceptor)
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe(f"{ASIDE}*")
        if vector.reply is not None:
            raw.subscribe(vector.reply)
        await raw.flush()
        async with RealWorker(bus, interceptor, name="policy", concurrency=vector.concurrency):
            for number in range(vector.already_running):
                raw.publish(SUBJECT, _aside("occupying"), reply=f"{ASIDE}{number}")
            for _ in range(vector.already_running):
                assert await interceptor.called.get() == "occupying"
            raw.publish(vector.subject, octets(vector.body), _timed(octets(vector.headers)), vector.reply or "")
            if vector.interceptor == "hangs":
                await interceptor.cut_off.wait()
            # Questions are taken in order, so what the vector's question brings is here with the marker's answer.
            raw.publish(SUBJECT, _aside("marker"), reply=f"{ASIDE}marker")
            answers = await _until(raw, f"{ASIDE}marker")
            if (vector.verdict or vector.error) and not answers:
                async with asyncio.timeout(LONG_S):
                    answers.append(await raw.next())
            interceptor.release.set()
    called = []
    while not interceptor.called.empty():
        called.append(interceptor.called.get_nowait())
    assert [session for session in called if session != "marker"] == (["s-1"] if vector.runs else [])
    if vector.verdict is None and vector.error is None:
        assert answers == []
        return
    (answer,) = answers
    assert answer.subject == vector.reply
    headers = _headers(answer)
    for name, pattern in vector.answer_headers.items():
        assert (name in headers) == (pattern is not None), name
        assert pattern is None or re.fullmatch(pattern, headers[name]), name
    if vector.error is not None:
        assert answer.body == b""
        assert headers["Nats-Service-Error-Code"] == vector.error.code
        assert headers["Nats-Service-Error"] == vector.error.error
        assert re.fullmatch("[A-Za-z_][A-Za-z0-9_.]{0,127}", vector.error.error)
        assert ("Retry-After-Ms" in headers) == (vector.error.code == "429")
    else:
        assert vector.verdict is not None
        assert "Nats-Service-Error-Code" not in headers
        assert exact(json.loads(answer.body)) == exact(json.loads(vector.verdict))


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


def _aside(session: str) -> bytes:
    return json.dumps(CONTEXTS["pre_tool_call"] | {"session": {"id": session}}).encode()


def _timed(headers: bytes) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return re.sub(rb"<now([+-]\d+)>", lambda found: str(now_ms + int(found[1])).encode(), headers)


def _headers(answer: RawMessage) -> dict[str, str]:
    lines = answer.headers.decode("ascii").split("\r\n")
    assert (lines[0], lines[-2:]) == ("NATS/1.0", ["", ""])
    return dict(line.split(": ", 1) for line in lines[1:-2])
