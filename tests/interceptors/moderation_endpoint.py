"""A moderation endpoint on this machine: an honest one, whose scores stand in the text itself, and broken ones."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

CATEGORIES = ("hate", "violence", "self-harm/intent")
_SCORE = re.compile(r"([a-z/-]+)=([0-9.]+)")


class Endpoint:
    """Scores a text by what it says, ``violence=0.9``, and flags what it scores above one half."""

    def __init__(self) -> None:
        self.url = ""
        #: Ends it before its time.
        self.close: Callable[[], Awaitable[None]]
        #: The texts of each request, and its headers.
        self.asked: list[list[str]] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[Any] = []
        self.connections: set[Any] = set()
        self.at_once = self.most_at_once = 0
        #: Requests wait for it while it is not set.
        self.open = asyncio.Event()
        self.open.set()

    @property
    def texts(self) -> list[str]:
        """Every text that was asked about."""
        return [text for texts in self.asked for text in texts]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer as the moderations of OpenAI do, or plainly to a request with one text."""
        body = await request.json()
        asked = body["input"]
        self.bodies.append(body)
        self.asked.append(asked if isinstance(asked, list) else [asked])
        self.headers.append(request.headers.copy())
        self.connections.add(request.transport)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.open.wait()
        finally:
            self.at_once -= 1
        if isinstance(asked, list):
            return web.json_response({"id": "m", "model": "m", "results": list(map(result, asked))})
        scores = result(asked)["category_scores"]
        return web.json_response([{"label": name.upper(), "score": score} for name, score in scores.items()])


def result(text: str) -> dict[str, Any]:
    """Return what the endpoint says of *text*."""
    scores = {**dict.fromkeys(CATEGORIES, 0.0), **{name: float(score) for name, score in _SCORE.findall(text)}}
    met = {name: score > 0.5 for name, score in scores.items()}
    return {"flagged": any(met.values()), "categories": {**met, "illicit": None}, "category_scores": scores}


@asynccontextmanager
async def moderating(tls: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    """An endpoint that listens."""
    endpoint = Endpoint()
    application = web.Application(client_max_size=2**24)
    application.router.add_post("/v1/moderations", endpoint.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    endpoint.close = runner.cleanup
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        scheme = "http" if tls is None else "https"
        endpoint.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}/v1/moderations"
        yield endpoint
    finally:
        endpoint.open.set()
        await runner.cleanup()


class Broken:
    """Takes a request and writes *said*, again and again if *endless*; then holds the line or closes it."""

    def __init__(self, said: bytes, *, holds: bool = False, endless: bool = False) -> None:
        self._said = said
        self._holds = holds
        self._endless = endless
        #: Set when a client has gone away.
        self.left = asyncio.Event()
        self.written_bytes = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self._said)
            while self._endless:
                writer.write(bytes(65536))
                self.written_bytes += 65536
                await writer.drain()
            if self._holds:
                while await reader.read(65536):
                    pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def breaking(broken: Broken) -> AsyncIterator[str]:
    """The address of an endpoint that is *broken*."""
    server = await asyncio.start_server(broken.take, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1/moderations"


def http(body: bytes, status: str = "200 OK", *, length: int | None = None, more: str = "") -> bytes:
    """An HTTP response by hand."""
    stated = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {stated}\r\n{more}\r\n".encode() + body
