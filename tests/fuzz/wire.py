"""A whole emission over a real server, with bent bytes in the place of a worker's answer."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from random import Random
from typing import Any, NamedTuple, Self

import hookbus
from hookbus import Message, envelope, subjects
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.fuzz import documents, reference
from tests.fuzz.bending import bent_headers, bent_json
from tests.fuzz.target import few, sometimes

#: The last word: whatever came before it and did not check, this settles the question.
LAST_WORD = b'{"decision":"deny","reason":"last_word"}'
ID = b"@id@"
#: Long enough that only a hang reaches it.
TIMEOUT_S = 30.0


class Case(NamedTuple):
    context: dict[str, Any]
    headers: bytes
    body: bytes


class Wire:
    """One emission; its question is answered with bent bytes and then with a deny."""

    name = "wire"

    async def __aenter__(self) -> Self:
        self._open = AsyncExitStack()
        server = self._open.enter_context(EmbeddedServer())
        self._bus = await self._open.enter_async_context(hookbus.connect(server.url))
        self._far = await self._open.enter_async_context(hookbus.connect(server.url))
        self._far.serve(["hb.v1.default.ctx.policy.*.*"], "policy", self._answer, on_refused=print)
        await self._far.flush(timeout_s=TIMEOUT_S)
        self._emitter = BusEmitter(timeout=TIMEOUT_S, identity_provider=None)
        self._emitter.register(self._bus.interceptor("policy"))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    def case(self, random: Random) -> Case:
        agent = random.choice(
            (documents.AGENT, documents.AGENT, "Bot 1", "*", ">", "a.b", "é", "a\r\nPUB x 0", "")
        )
        lines = ["Hb-Interceptor: policy", "Hb-Worker: w1", "Hb-Policy: v7"]
        told = ["Hb-Id: @id@"] * sometimes(random, 2) + list(dict.fromkeys(few(random, lines)))
        headers = "".join(f"{line}\r\n" for line in ["NATS/1.0", *told, ""]).encode() if told else b""
        return Case(
            documents.context(random, agent=agent),
            bent_headers(random, headers) if headers and sometimes(random, 2) else headers,
            bent_json(random, documents.answer(random)),
        )

    async def check(self, case: Case) -> str:
        self._case, self._asked = case, ""
        async with asyncio.timeout(TIMEOUT_S):
            record = await self._emitter.emit_unchecked(case.context)
        if case.context["agent"]["id"] == "":
            assert self._asked == ""
            assert record.verdict.reason == "host_error:context_invalid"
            return "unsendable"
        assert self._asked.split(".")[6:] == [subjects.token(case.context["agent"]["id"])]
        assert self._bus.reconnects == self._far.reconnects == 0, "a connection was lost"
        if record.proceeds:
            assert self._may_permit(), "an answer that must not count has permitted"
            return "permitted"
        reason = record.verdict.reason or ""
        return reason if reason == "last_word" or reason.startswith("host_error:") else "denied"

    def _answer(self, message: Message) -> None:
        """Answer as a worker that is out of its mind, and then as one that denies."""
        self._asked = message.subject
        self._id = envelope.parse(message.headers).values[envelope.ID]
        self._far.publish(message.reply, self._case.body, self._headers())
        self._far.publish(message.reply, LAST_WORD)

    def _headers(self) -> bytes:
        return self._case.headers.replace(ID, self._id.encode())

    def _may_permit(self) -> bool:
        try:
            status, values = reference.read_headers(self._headers())
        except reference.Refused:
            return False
        return (
            status is None
            and envelope.ERROR_CODE not in values
            and values.get(envelope.ID, self._id) == self._id
            and values.get(envelope.INTERCEPTOR, "policy") == "policy"
            and reference.may_permit(self._case.body)
        )
