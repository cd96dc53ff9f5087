"""The moderation endpoint over HTTP: within a deadline, and never taken at its word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import anyio
import msgspec

from hookbus import Undecodable
from hookbus.codec import parse_strictly
from hookbus_interceptors.content.configuration import ContentConfiguration
from hookbus_interceptors.content.judging import EndpointClosed, Judgement, Unjudged, Why
from hookbus_interceptors.content.shapes import shape_of

#: Deadlines are our own: one for all requests of a question.
_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class Endpoint:
    """The endpoint of one configuration, to be asked while it is :meth:`opened`."""

    def __init__(self, configuration: ContentConfiguration) -> None:
        self._url = str(configuration.url)
        self._shape = shape_of(configuration)
        self._max_answer_bytes = configuration.max_answer_bytes
        self._slots = asyncio.Semaphore(configuration.connections)
        self._tls = configuration.tls()
        self._headers = {
            "Content-Type": "application/json",
            # A small compressed answer can be a large one.
            "Accept-Encoding": "identity",
            **configuration.key_headers(),
        }
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold connections open until left."""
        # The slots are the limit; nothing else in the session is of one configuration.
        connector = aiohttp.TCPConnector(limit=0)
        cookies = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=cookies, auto_decompress=False, timeout=_NO_TIMEOUT
        ) as self._session:
            yield

    def take_over(self, previous: Endpoint) -> None:
        """Use the connections that *previous* holds open."""
        self._session = previous._session

    async def judge(self, texts: Sequence[str], *, within_s: float) -> list[Judgement]:
        """Return a judgement for each of *texts*, in their order.

        Waits at most *within_s* seconds for all of them together. Raises :class:`Unjudged` as soon as one of them
        is not judged, and :class:`EndpointClosed`.
        """
        if self._session is None:
            raise EndpointClosed
        if not texts:
            # Not late either, however little time there is.
            return []
        session, size = self._session, self._shape.batch
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        judged: dict[int, list[Judgement]] = {}
        failed: list[Unjudged] = []

        async def ask(number: int) -> None:
            try:
                judged[number] = await self._ask(session, batches[number])
            except Unjudged as error:
                failed.append(error)
                tasks.cancel_scope.cancel()

        try:
            with anyio.fail_after(max(0.0, within_s)):
                async with anyio.create_task_group() as tasks:
                    for number in range(len(batches)):
                        tasks.start_soon(ask, number)
        except TimeoutError:
            raise Unjudged(Why.LATE) from None
        if failed:
            raise failed[0]
        return [judgement for number in range(len(batches)) for judgement in judged[number]]

    async def _ask(self, session: aiohttp.ClientSession, texts: Sequence[str]) -> list[Judgement]:
        async with self._slots:
            body = await self._post(session, msgspec.json.encode(self._shape.request(texts)))
        try:
            answer = parse_strictly(body)
        except Undecodable:
            raise Unjudged(Why.NOT_JSON) from None
        return self._shape.read(answer, len(texts))

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> bytes:
        try:
            async with session.post(
                self._url, data=body, headers=self._headers, ssl=self._tls, allow_redirects=False
            ) as answer:
                if 300 <= answer.status < 400:
                    raise Unjudged(Why.REDIRECT)
                if answer.status != 200:
                    raise Unjudged(Why.STATUS, answer.status)
                return await self._read(answer.content)
        except aiohttp.ClientConnectorError:
            raise Unjudged(Why.UNREACHABLE) from None
        except aiohttp.ClientError:
            raise Unjudged(Why.BROKEN_OFF) from None

    async def _read(self, stream: aiohttp.StreamReader) -> bytes:
        taken = bytearray()
        async for part in stream.iter_any():
            taken += part
            if len(taken) > self._max_answer_bytes:
                raise Unjudged(Why.TOO_LARGE)
        return bytes(taken)
