"""Questions by hand: every header, body and reply subject as the test wants it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Self
from uuid import uuid4

from agent_hooks import AgentContextBuilder

import hookbus
from hookbus import envelope, subjects

AGENT = "traveller"
POINT = "pre_tool_call"


def context(target: Any = None, *, agent: str = AGENT, **more: Any) -> dict[str, Any]:
    """A tool call whose target is *target*."""
    builder = AgentContextBuilder(agent_id=agent, framework="tests", session_id="session")
    made = builder.pre_tool_call(call_id="call", name="book", args={})
    return {**made, "target": target, **more}


def headers(budget_ms: int = 5000, *, id: str | None = None, **more: str) -> bytes:
    """The headers of a question as the contract has them; *more* replaces or, if empty, removes."""
    named = {
        envelope.CONTRACT: "1",
        envelope.ID: id or uuid4().hex,
        envelope.BUDGET_MS: str(budget_ms),
        envelope.EXPIRES_MS: str(time.time_ns() // 1_000_000 + budget_ms),
    }
    named |= {f"Hb-{key.replace('_', '-').title()}": value for key, value in more.items()}
    return envelope.encode({name: value for name, value in named.items() if value})


class Answer:
    """An answer as it came."""

    def __init__(self, message: hookbus.Message) -> None:
        self.subject = message.subject
        self.headers = envelope.parse(message.headers).values
        self.body = message.body

    @property
    def verdict(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[str | None, str | None]:
        """The error code and the type name, None where there is none."""
        return self.headers.get(envelope.ERROR_CODE), self.headers.get(envelope.ERROR)


class Asker:
    """Asks interceptor ``policy`` of a tenant of its own, over ``bus``, which a worker may share."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.tenant = f"t{uuid4().hex}"
        self.url = url
        self.bus = hookbus.connect(url, tenant=self.tenant, **settings)
        self._numbers = itertools.count()
        self._came: asyncio.Queue[Answer] = asyncio.Queue()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self.bus)
        self.bus.serve([f"hb.v1.{self.tenant}.ans.*.*.c0ffee.*"], "", self._take, on_refused=self._refused)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._open.__aexit__(*error)

    def _take(self, message: hookbus.Message) -> None:
        self._came.put_nowait(Answer(message))

    def _refused(self, subject: str) -> None:
        raise AssertionError(subject)

    def send(
        self,
        body: Any,
        raw_headers: bytes | None = None,
        *,
        reply: str | None = None,
        point: str = POINT,
        agent: str = AGENT,
        interceptor: str = "policy",
    ) -> str:
        """Publish one question; return its reply subject."""
        subject = subjects.question(self.tenant, interceptor, point, agent)
        reply = reply or subjects.answer(self.tenant, interceptor, agent, "c0ffee", next(self._numbers))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.bus.publish(subject, data, headers() if raw_headers is None else raw_headers, reply)
        return reply

    async def answer(self, *, within_s: float = 10) -> Answer:
        """The next answer that comes."""
        async with asyncio.timeout(within_s):
            return await self._came.get()

    async def ask(self, body: Any = None, raw_headers: bytes | None = None, **more: Any) -> Answer:
        """Ask and return the answer to that very question; there must be no other on its way."""
        body = context(interception_point=more.get("point", POINT)) if body is None else body
        reply = self.send(body, raw_headers, **more)
        answer = await self.answer()
        assert answer.subject == reply
        return answer

    async def settled(self) -> None:
        """Return when a worker on this same connection has taken everything sent before."""
        await self.bus.flush(timeout_s=10)

    @property
    def unread(self) -> int:
        """Answers that came and were not asked for."""
        return self._came.qsize()


async def eventually(holds: Callable[[], Awaitable[bool]], *, within_s: float = 20) -> None:
    """Return when *holds* returns true, asking again and again; TimeoutError after *within_s*."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110  # what is waited for happens in another process
            await asyncio.sleep(0.01)
