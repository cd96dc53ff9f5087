"""The connection to the bus: it stays up by building itself anew, and asks and serves over whatever is up.

While it is down nothing is buffered: a question is denied as ``bus_down`` at once and an answer is lost, which
its asker's deadline turns into a deny. Subscriptions of workers are made again on every new connection;
answers are expected on a new, unguessable subject on every new connection. (Contract, sections 1 and 4.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Self

import anyio
import msgspec

from hookbus.asker import Asker
from hookbus.errors import BodyTooLarge, BusDown, CannotConnect
from hookbus.nats_client import NatsClient, frames_of, without_secrets
from hookbus.remote import RemoteInterceptor
from hookbus.settings import Settings
from hookbus.signing import Signer, Trust, TrustFile

logger = logging.getLogger("hookbus.connection")

#: What is kept free of the server's limit: it counts the sum of headers and body, and closes for good above it.
MARGIN_BYTES: Final = 256
#: What the headers of a question may take, with trace and signature.
HEADER_ROOM_BYTES: Final = 1024


class Message(msgspec.Struct, frozen=True):
    """A message as it came; ``headers`` are its raw bytes."""

    subject: str
    reply: str
    headers: bytes
    body: bytes


class Serving:
    """Subscriptions that outlive a connection: made again, in order, on every new one."""

    def __init__(
        self,
        connection: Connection,
        patterns: Sequence[str],
        queue: str,
        receive: Callable[[Message], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self.patterns = tuple(patterns)
        self._queue = queue
        self._receive = receive
        self.on_refused = on_refused
        self._sids: list[int] = []

    def listen(self, client: NatsClient, max_unsent_bytes: int) -> None:
        """Subscribe on *client*, a new connection."""
        self._sids = [
            client.listen(pattern, self._queue, self._hand_over, max_unsent_bytes=max_unsent_bytes)
            for pattern in self.patterns
        ]

    def _hand_over(self, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> None:
        self._receive(Message(subject.decode(), reply.decode(), headers, body))

    async def drain(self, *, timeout_s: float) -> None:
        """Take nothing new: when this returns, all that the server had sent has been handed over.

        Returns after at most ``timeout_s`` seconds, also when the connection is down.
        """
        await self._connection._stop_serving(self, self._sids, timeout_s)


class Connection:
    """One process's place on the bus. Use as ``async with hookbus.connect(...) as bus``.

    Entering raises :class:`CannotConnect` when no server can be joined within ``connect_timeout_s``. From then
    on the connection looks after itself until it is left; while it is down every question is denied at once.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Times the connection was lost and came back.
        self.reconnects = 0
        self._urls: list[str] = list(settings.urls)
        #: The server joined last.
        self._joined = ""
        self._client: NatsClient | None = None
        #: Signs this process's questions, or a worker's answers; None signs nothing.
        self.signer = Signer.from_file(settings.signing_key) if settings.signing_key else None
        self._trust_file = TrustFile(settings.trust) if settings.trust else None
        #: Asks the questions of this process's agents over whatever connection is up.
        self.asker = Asker(settings, self.signer)
        self._servings: list[Serving] = []
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[None] | None = None

    # ---- life ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._keeper is not None:
            raise RuntimeError("this connection has been entered before; make a new one with hookbus.connect()")
        deadline = asyncio.get_running_loop().time() + self.settings.connect_timeout_s
        await self._join(deadline)
        self._keeper = asyncio.create_task(self._keep(), name="hookbus connection")
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            # One round trip first: aborting drops what the socket has not taken, such as answers just written.
            if self.is_connected:
                await self.flush(timeout_s=1.0)
        finally:
            self._end_client()
            with anyio.move_on_after(1.0, shield=True):
                # More than once: on Python 3.11 a cancellation can be lost while the library connects.
                while self._keeper is not None and not self._keeper.done():
                    self._keeper.cancel()
                    await asyncio.wait([self._keeper], timeout=0.05)
            self._end_client()

    @property
    def trust(self) -> Trust | None:
        """Whose signatures count, as the trust file has it now; None demands none."""
        return self._trust_file.now() if self._trust_file is not None else None

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._client is not None

    @property
    def in_flight(self) -> int:
        """Questions asked here that nothing has settled yet."""
        return self.asker.in_flight

    @property
    def dropped_answers(self) -> dict[str, int]:
        """Answers that settled nothing, by cause (:class:`hookbus.questions.Questions`)."""
        return self.asker.dropped_answers

    @property
    def open_breakers(self) -> frozenset[str]:
        """The interceptors, by token, that are denied at once because they were silent again and again."""
        return self.asker.open_breakers

    @property
    def max_message_bytes(self) -> int:
        """What headers and body may have together on this connection; 0 while it is down."""
        return self._client.max_payload - MARGIN_BYTES if self._client is not None else 0

    @property
    def max_context_bytes(self) -> int:
        """What a context may have on this connection, beside its headers; 0 while it is down."""
        return max(0, self.max_message_bytes - HEADER_ROOM_BYTES)

    async def _join(self, deadline: float | None) -> None:
        """Connect to any of the servers, trying until *deadline* (loop time) or for ever."""
        loop = asyncio.get_running_loop()
        pause_s = 0.02
        while True:
            error = None
            # The server that was just lost comes last: one that has stopped takes a connection and says nothing.
            for url in sorted(random.sample(self._urls, len(self._urls)), key=lambda url: url == self._joined):
                limit_s = self.settings.connect_timeout_s
                if deadline is not None:
                    limit_s = min(limit_s, deadline - loop.time())
                if limit_s <= 0:
                    break
                client = NatsClient(on_lost=self._note_lost, on_violation=self._note_violation)
                try:
                    await client.open(
                        url,
                        name=self.settings.name,
                        creds=self.settings.creds,
                        tls_ca=self.settings.tls_ca,
                        timeout_s=limit_s,
                    )
                except CannotConnect as failed:
                    error = failed
                    continue
                if self._adopt(client):
                    self._joined = url
                    return
            if deadline is not None and (loop.time() + pause_s >= deadline or error is not None):
                raise CannotConnect(
                    tuple(without_secrets(url) for url in self._urls), error.why if error else "TimeoutError"
                )
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, self.settings.reconnect_wait_s)

    def _adopt(self, client: NatsClient) -> bool:
        """Make *client* the connection; False if it was lost meanwhile."""
        self._lost.clear()
        self._client = client
        self.asker.attach(client, self.max_context_bytes)
        try:
            for serving in self._servings:
                serving.listen(client, self.settings.max_unsent_bytes)
        except BusDown:
            self._end_client()
            return False
        known = set(self._urls)
        self._urls += [
            uri for uri in (server.geturl() for server in client.discovered_servers) if uri not in known
        ]
        self._heartbeat = asyncio.create_task(self._beat(client), name="hookbus heartbeat")
        return True

    async def _keep(self) -> None:
        while True:
            await self._lost.wait()
            await self._join(None)
            self.reconnects += 1
            logger.info("connected again")

    async def _beat(self, client: NatsClient) -> None:
        """Ask the server, at every interval, whether it still answers; end the connection if it does not.

        The answer comes through the same read loop as every verdict, so this also finds a connection that
        is open and hears nothing.
        """
        interval_s = self.settings.ping_interval_s
        while True:
            await asyncio.sleep(interval_s)
            try:
                pong = client.ping()
            except BusDown:
                return client.lose("the connection is closing")
            await asyncio.wait([pong], timeout=interval_s)
            if not pong.done():
                # After a stall of this process the answer is in the socket already; let it be read.
                await asyncio.wait([pong], timeout=interval_s / 4)
            if not pong.done():
                return client.lose("the server does not answer")

    def _note_lost(self, why: str) -> None:
        logger.warning("the connection was lost: %s", why)
        self._end_client()
        self._lost.set()

    def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.abandon()
        self.asker.detach()
        if self._heartbeat is not None and self._heartbeat is not asyncio.current_task():
            self._heartbeat.cancel()

    def _note_violation(self, verb: str, subject: str) -> None:
        logger.warning("the server refused a %s", verb)
        self.asker.note_violation(verb, subject)
        for serving in self._servings:
            if subject in serving.patterns:
                serving.on_refused(subject)

    # ---- asking ----------------------------------------------------------------------------------

    def interceptor(
        self, name: str, *, hedge_after_s: float | None = None, keys: Iterable[str] | None = None
    ) -> RemoteInterceptor:
        """Return the remote interceptor *name*, to be registered with an emitter.

        ``hedge_after_s`` declares it safe to repeat: when it has not answered after so many seconds, a second
        attempt of the same question goes out inside the deadline. ``keys`` are the public keys one of which
        must have signed an answer; without them, those that the connection's trust file gives the workers of
        that name, where there is one. Makes no promise that anybody serves it: that shows at every question.
        """
        return RemoteInterceptor(self, name, hedge_after_s, None if keys is None else frozenset(keys))

    # ---- serving ---------------------------------------------------------------------------------

    def serve(
        self,
        patterns: Sequence[str],
        queue: str,
        receive: Callable[[Message], None],
        *,
        on_refused: Callable[[str], None],
    ) -> Serving:
        """Hand every message on *patterns* to ``receive``, on this connection and on every later one.

        ``receive`` runs in the read loop: it must neither wait nor raise. ``on_refused`` is told the pattern
        when the server does not permit the subscription.
        """
        serving = Serving(self, patterns, queue, receive, on_refused)
        self._servings.append(serving)
        if self._client is not None:
            # A connection that ends at this moment is followed by one on which this is done again.
            with contextlib.suppress(BusDown):
                serving.listen(self._client, self.settings.max_unsent_bytes)
        return serving

    async def _stop_serving(self, serving: Serving, sids: list[int], timeout_s: float) -> None:
        if serving in self._servings:
            self._servings.remove(serving)
        client = self._client
        if client is None:
            return
        try:
            for sid in sids:
                client.unlisten(sid, max_unsent_bytes=self.settings.max_unsent_bytes)
            await asyncio.wait([client.ping()], timeout=timeout_s)
        except BusDown:
            return
        for sid in sids:
            client.forget(sid)

    def publish(self, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> None:
        """Send one message; never waits. ``headers`` are encoded bytes.

        Raises :class:`BusDown` when there is no connection, :class:`BodyTooLarge` above its limit.
        """
        client = self._client
        if client is None:
            raise BusDown("not connected")
        if len(headers) + len(body) > self.max_message_bytes:
            raise BodyTooLarge(len(headers) + len(body), self.max_message_bytes)
        client.write(frames_of(subject, reply, headers, body), max_unsent_bytes=self.settings.max_unsent_bytes)

    async def flush(self, *, timeout_s: float) -> bool:
        """Wait until the server has taken all that was sent before; False after ``timeout_s`` or when down."""
        client = self._client
        if client is None:
            return False
        try:
            pong = client.ping()
        except BusDown:
            return False
        await asyncio.wait([pong], timeout=timeout_s)
        return pong.done() and not pong.cancelled()
