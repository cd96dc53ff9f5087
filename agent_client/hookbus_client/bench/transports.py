"""HTTP and gRPC in the place of the bus: everything but the way to the worker and back stays as it is.

:class:`Postbox` is what a remote interceptor needs of a connection. So the webhooks and the gRPC calls of the
bench come with the same validation, encoding (once), identities, deadlines, composition and records as the bus.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import aiohttp
import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
from yarl import URL

from hookbus import Failure, RemoteInterceptor
from hookbus.context import Outgoing
from hookbus.questions import Answer, Judge, Question

#: Puts a body to the interceptor of a name and returns its answer.
Post: TypeAlias = Callable[[str, bytes], Coroutine[Any, Any, bytes]]

GRPC_METHOD: Final = "/hookbus.bench.Interceptor/Intercept"
#: Neither side refuses what the other sends.
GRPC_OPTIONS: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
_JSON: Final = {"Content-Type": "application/json"}


class Postbox:
    """Asks over a transport that brings each answer back to whoever asked."""

    is_connected = True
    max_context_bytes = 2**31

    def __init__(self, post: Post) -> None:
        self._post = post
        self._posting: set[asyncio.Task[None]] = set()

    @property
    def asker(self) -> Postbox:
        """Itself: there is nothing in between."""
        return self

    def ask(
        self,
        context: Outgoing,
        interceptors: Sequence[tuple[RemoteInterceptor, float]],
        judge: Judge,
        on_settled: Callable[[], None] | None = None,
        *,
        past_breakers: bool = False,
    ) -> list[Question]:
        """Put *context* to each interceptor at the same time, as :meth:`hookbus.asker.Asker.ask` does."""
        questions: list[Question] = []
        for interceptor, _ in interceptors:
            question = Question("", interceptor.token, judge, on_settled)
            task = asyncio.create_task(self._settle(question, interceptor.name, context.body))
            self._posting.add(task)
            task.add_done_callback(self._posting.discard)
            questions.append(question)
        return questions

    def give_up(self, question: Question) -> None:
        """Settle *question* as silence if nothing has settled it."""
        question.settle(question.silence)

    async def _settle(self, question: Question, name: str, body: bytes) -> None:
        try:
            answer = await self._post(name, body)
        except (aiohttp.ClientError, grpc.RpcError):
            question.settle(Failure.RAISED)
        else:
            question.settle(Answer(question.judge(answer)))


@asynccontextmanager
async def webhooks(addresses: dict[str, str]) -> AsyncIterator[Postbox]:
    """Post to the ``host:port`` of each interceptor over connections that stay open, as many as are needed."""
    urls = {name: URL(f"http://{address}/") for name, address in addresses.items()}
    # The deadline is the emission's own, as it is for every contender, so the client needs no timer of its own.
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3600),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_JSON,
        skip_auto_headers=("User-Agent", "Accept-Encoding"),
    ) as session:

        async def post(name: str, body: bytes) -> bytes:
            async with session.post(urls[name], data=body) as response:
                response.raise_for_status()
                return await response.read()

        yield Postbox(post)


@asynccontextmanager
async def grpc_calls(addresses: dict[str, str]) -> AsyncIterator[Postbox]:
    """Call the interceptors at their ``host:port``, each over one channel."""
    channels = {name: grpc.aio.insecure_channel(at, options=GRPC_OPTIONS) for name, at in addresses.items()}
    calls = {name: channel.unary_unary(GRPC_METHOD) for name, channel in channels.items()}

    async def post(name: str, body: bytes) -> bytes:
        answer: bytes = await calls[name](body)
        return answer

    try:
        yield Postbox(post)
    finally:
        for channel in channels.values():
            await channel.close()
