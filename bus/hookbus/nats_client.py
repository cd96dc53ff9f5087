"""The nats-py client with a strong hand: what it does wrong is put right here and nowhere else.

One object is one connection to one server and is never revived: whatever goes wrong ends it, says so once
through ``on_lost``, and :mod:`hookbus.connection` builds the next one. So nothing is buffered for later, no
reconnect gives up, and no half-dead client pretends to be connected. Frames are written straight to the
socket's buffer, so sending never waits. The library opens the connection and signs in; what comes after that is
read by :mod:`hookbus.incoming`, so no message can end the reading unnoticed, and none waits for a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from hookbus.errors import BusDown, CannotConnect
from hookbus.incoming import Incoming

logger = logging.getLogger("hookbus.connection")

#: A message as it came: subject, reply subject, header bytes, body.
Handler = Callable[[bytes, bytes, bytes, bytes], None]

_CRLF: Final = b"\r\n"
_READ_BYTES: Final = 64 * 1024
_PING: Final = b"PING\r\n"
_PONG: Final = b"PONG\r\n"
#: Larger frames are sent by themselves: below, copying frames together costs less than one more system call.
_APART_BYTES: Final = 512 * 1024


class NatsClient(Client):
    """One connection to one server; ``on_lost(why)`` is called exactly once when it is over.

    ``on_violation(verb, subject)`` is called for each permissions violation, with ``publish`` or
    ``subscription``. Neither may raise.
    """

    def __init__(self, *, on_lost: Callable[[str], None], on_violation: Callable[[str, str], None]) -> None:
        super().__init__()
        self._on_lost = on_lost
        self._on_violation = on_violation
        self._lost = False
        self._handlers: dict[int, Handler] = {}
        self._incoming = Incoming(self._hand_over, self._process_line, self.lose)
        #: Once the connection is open.
        self._socket: asyncio.Transport | None = None
        #: What this turn of the loop has written after its first frames; None before those.
        self._gathered: list[bytes] | None = None
        self._gathered_bytes = 0
        #: Messages dropped because something about them could not be read.
        self.unreadable = 0

    # ---- opening and ending ----------------------------------------------------------------------

    async def open(
        self, url: str, *, name: str, creds: Path | None, tls_ca: Path | None, timeout_s: float
    ) -> None:
        """Connect to *url* within ``timeout_s`` seconds by our own clock, or raise :class:`CannotConnect`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.connect(
                    url,
                    name=name,
                    error_cb=self._note,
                    allow_reconnect=False,
                    pending_size=0,
                    connect_timeout=max(1, round(timeout_s)),
                    **_options(url, creds, tls_ca),
                )
        except BaseException as error:
            self.abandon()
            # The library lets OSError, its own errors, ValueError, KeyError and AssertionError out of this
            # call, depending on what the server says; none of them means anything but "not connected".
            if isinstance(error, Exception):
                raise CannotConnect((without_secrets(url),), _why(error)) from None
            raise
        self._take_over()
        if self._lost:
            raise CannotConnect((without_secrets(url),), "the connection ended at once")

    def _take_over(self) -> None:
        """Read from here on; what the library has read and not looked at comes first."""
        assert isinstance(self._transport, TcpTransport)
        assert self._transport._io_reader is not None
        assert self._transport._io_writer is not None
        reader: Any = self._transport._io_reader
        self._socket = transport = cast(asyncio.Transport, self._transport._io_writer.transport)
        transport.set_protocol(self._incoming)
        self._incoming.feed(bytes(reader._buffer))
        if reader._eof or transport.is_closing():
            # Whoever read before has been told of the end, and nobody is told twice.
            self._incoming.connection_lost(None)
        elif not self._lost:
            # The library's reader stops the transport when a lot has come at once.
            transport.resume_reading()

    async def _read_loop(self) -> None:
        """Nothing: see :meth:`_take_over`."""

    async def _ping_interval(self) -> None:
        """Nothing: the heartbeat is the connection's, and the library's only notices after three intervals."""

    async def _flusher(self) -> None:
        """Nothing: what is written is written at once."""

    def _connect_command(self) -> bytes:
        # The library signs in all the same where the greeting, which anybody on the line can alter, offers no TLS.
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise nats_errors.SecureConnRequiredError
        return bytes(super()._connect_command())

    async def _select_next_server(self) -> None:
        # One server and one attempt: which server comes next is decided by whoever builds the next client. The
        # library's own connecting can lose a cancellation, and with it the socket it has just opened.
        self._current_server = self._server_pool[0]
        uri = self._current_server.uri
        transport = TcpTransport()  # type: ignore[no-untyped-call]  # the library's own, without types
        reader, writer = await asyncio.open_connection(uri.hostname, uri.port, limit=_READ_BYTES)
        transport._bare_io_reader = transport._io_reader = reader
        transport._bare_io_writer = transport._io_writer = writer
        self._transport = transport

    def lose(self, why: str) -> None:
        """End this connection now, without waiting for anything."""
        if not self._lost:
            self._lost = True
            self.abandon()
            self._on_lost(why)

    def abandon(self) -> None:
        """Drop the socket and what was still to be written to it, and hand over nothing more.

        The library's own close waits for the socket to take what is buffered, which a stopped server
        never does.
        """
        self._lost = True
        self._status = Client.CLOSED
        self._incoming.stop()
        self._handlers.clear()
        self._gathered = None
        for pong in self._pongs:
            if not pong.done():
                pong.cancel()
        self._pongs.clear()
        if isinstance(self._transport, TcpTransport) and self._transport._io_writer is not None:
            self._transport._io_writer.transport.abort()

    # ---- sending ---------------------------------------------------------------------------------

    def write(self, frames: Sequence[bytes], *, max_unsent_bytes: int) -> None:
        """Hand *frames* to the socket's buffer; never waits.

        What a turn of the loop writes first leaves at once, what else it writes leaves together after it. Raises
        :class:`BusDown` when the connection is over or its buffer holds ``max_unsent_bytes``.
        """
        socket = self._socket
        if socket is None or self._lost:
            raise BusDown("not connected")
        if socket.is_closing():
            raise BusDown("the connection is closing")
        if socket.get_write_buffer_size() + self._gathered_bytes > max_unsent_bytes:
            raise BusDown("the server takes nothing, so what was written cannot be flushed")
        if self._gathered is None:
            self._gathered = []
            asyncio.get_running_loop().call_soon(self._write_gathered, socket)
            _write(socket, frames)
        else:
            self._gathered += frames
            self._gathered_bytes += sum(map(len, frames))

    def _write_gathered(self, socket: asyncio.Transport) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, None, 0
        if gathered and not socket.is_closing():
            _write(socket, gathered)

    def listen(self, subject: str, queue: str, handler: Handler, *, max_unsent_bytes: int) -> int:
        """Subscribe *handler* to *subject* and return the subscription's number. Never waits."""
        self._sid += 1
        sid: int = self._sid
        self.write((f"SUB {subject} {queue} {sid}\r\n".encode(),), max_unsent_bytes=max_unsent_bytes)
        self._handlers[sid] = handler
        return sid

    def unlisten(self, sid: int, *, max_unsent_bytes: int) -> None:
        """Ask the server for no more of subscription *sid*; what is on its way is still handed over."""
        self.write((f"UNSUB {sid}\r\n".encode(),), max_unsent_bytes=max_unsent_bytes)

    def forget(self, sid: int) -> None:
        """Hand over nothing more of subscription *sid*."""
        self._handlers.pop(sid, None)

    def ping(self) -> asyncio.Future[Any]:
        """Send a PING and return the future of its PONG, which comes after all that was sent before."""
        pong: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.write((_PING,), max_unsent_bytes=2**62)
        self._pongs.append(pong)
        return pong

    # ---- what comes in ---------------------------------------------------------------------------

    def _hand_over(self, sid: int, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> None:
        handler = self._handlers.get(sid)
        if handler is None:
            return
        try:
            handler(subject, reply, headers, body)
        except Exception as error:  # noqa: BLE001  # the boundary to everybody's handlers
            # An exception here would end the connection. The message is dropped instead, and only the type of the
            # fault is told.
            self.unreadable += 1
            logger.warning("a message was dropped: %s", type(error).__name__)

    def _process_line(self, line: bytes) -> None:
        verb, _, rest = line.partition(b" ")
        match verb:
            case b"PING":
                # A connection that is closing tells of its end by itself.
                with contextlib.suppress(BusDown):
                    self.write((_PONG,), max_unsent_bytes=2**62)
            case b"PONG":
                if self._pongs and not (pong := self._pongs.pop(0)).done():
                    pong.set_result(None)
            case b"-ERR":
                self._process_refusal(rest.decode("utf-8", "replace").lower())
            case b"INFO" if _is_json(rest):
                pass  # What a server tells of its cluster later is learnt with the next connection.
            case b"+OK":
                pass
            case _:
                self.lose("what came is not the NATS protocol")

    def _process_refusal(self, text: str) -> None:
        message = text.strip(" '")
        for verb in ("publish", "subscription"):
            before, mark, rest = message.partition(f"permissions violation for {verb} to ")
            if mark and not before:
                self._on_violation(verb, rest.split('"')[1] if rest.count('"') >= 2 else "")
                return
        self.lose(f"the server said: {message}")

    async def _note(self, error: Exception) -> None:
        logger.debug("nats-py: %s", type(error).__name__)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _write(socket: asyncio.Transport, frames: Sequence[bytes]) -> None:
    """Write *frames*, the small ones together and no large one copied."""
    small: list[bytes] = []
    for frame in frames:
        if len(frame) > _APART_BYTES:
            socket.write(b"".join(small))
            socket.write(frame)
            small = []
        else:
            small.append(frame)
    socket.write(b"".join(small))


def frames_of(subject: str, reply: str, headers: bytes, body: bytes) -> tuple[bytes, ...]:
    """Return the protocol frames that publish *body* with header bytes *headers*, which may be empty."""
    if not headers:
        return f"PUB {subject} {reply} {len(body)}\r\n".encode(), body, _CRLF
    size = len(headers) + len(body)
    return f"HPUB {subject} {reply} {len(headers)} {size}\r\n".encode(), headers, body, _CRLF


def without_secrets(url: str) -> str:
    """Return *url* without a user name and password; never raises."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}:{parts.port or 4222}"
    except ValueError:
        # A server may tell of others at addresses that are none.
        return "an address that is not host:port"


def _options(url: str, creds: Path | None, ca: Path | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if creds is not None:
        # A bare seed is an nkey; anything else is a JWT credentials file.
        seed = creds.read_text("ascii", "replace").strip()
        if seed.startswith("SU") and len(seed.split()) == 1:
            options["nkeys_seed_str"] = seed
        else:
            options["user_credentials"] = str(creds)
    if ca is not None or urlsplit(url).scheme == "tls":
        options["tls"] = ssl.create_default_context(cafile=str(ca) if ca else None)
    return options


def _why(error: BaseException) -> str:
    if isinstance(error, nats_errors.Error) and str(error).startswith("nats: '"):
        return f"the server said: {str(error)[7:].rstrip(chr(39))}"
    return type(error).__name__
