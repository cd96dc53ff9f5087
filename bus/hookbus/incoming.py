"""What the server sends, read straight from the socket: no task, no stream in between, one copy of each body.

The protocol is the NATS client protocol: lines, and after a message's line its headers and body. Whoever opens the
connection reads up to the server's first PONG; from then on everything comes through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

#: A message as it came: the subscription's number, subject, reply subject, header bytes, body.
OnMessage = Callable[[int, bytes, bytes, bytes, bytes], None]

#: The longest line that is read; a server tells of its whole cluster in one.
MAX_LINE_BYTES: Final = 64 * 1024
#: The largest message that any server lets through (its ``max_payload`` is at most this).
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024

#: How much is read at once while no larger message is on its way.
_ROOM_BYTES: Final = 128 * 1024
#: A buffer above this is given back as soon as it is empty.
_KEPT_BYTES: Final = 1024 * 1024
_CRLF: Final = b"\r\n"


class Violation(Exception):
    """What came is not the protocol; nothing of it is told."""


class Incoming(asyncio.BufferedProtocol):
    """Hands over each message, and each other line, when its last byte has come, in the order they came.

    ``on_message`` gets messages, ``on_line`` every other line without its end, and ``on_end(why)`` is called
    once, when the connection is over or speaks something else. All three run inside of the loop's reading: they
    must neither wait nor raise. After :meth:`stop` none is called any more.
    """

    def __init__(
        self, on_message: OnMessage, on_line: Callable[[bytes], None], on_end: Callable[[str], None]
    ) -> None:
        self._on_message = on_message
        self._on_line = on_line
        self._on_end = on_end
        self._buffer = bytearray(_ROOM_BYTES)
        self._view = memoryview(self._buffer)
        #: What has come and has not been handed over stands between these two.
        self._begin = 0
        self._end = 0
        #: Bytes from ``_begin`` on that the message there takes, where its line has come; else 0.
        self._wanted = 0
        self._stopped = False

    def stop(self) -> None:
        """Hand over nothing more."""
        self._stopped = True

    # ---- what the transport calls ------------------------------------------------------------------

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return where the next bytes are to be put; never empty."""
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take *nbytes* that have been put there."""
        self._end += nbytes
        if self._end - self._begin >= self._wanted:
            try:
                self._read()
            except Violation:
                self._over("what came is not the NATS protocol")
        self._make_room()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note that the connection is over."""
        self._over(type(exc).__name__ if exc is not None else "the server ended it")

    def _over(self, why: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._on_end(why)

    # ---- reading -----------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Take bytes that were read by somebody else before."""
        while data:
            room = self.get_buffer(-1)
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            self.buffer_updated(len(part))

    def _read(self) -> None:
        """Hand over all that is complete."""
        buffer, view, end = self._buffer, self._view, self._end
        at = self._begin
        self._wanted = 0
        while at < end and not self._stopped:
            stop = buffer.find(_CRLF, at, at + MAX_LINE_BYTES if at + MAX_LINE_BYTES < end else end)
            if stop < 0:
                if end - at >= MAX_LINE_BYTES:
                    raise Violation
                break
            line = bytes(view[at:stop])
            body_at = stop + 2
            if line.startswith(b"HMSG "):
                sid, subject, reply, (headers_size, size) = _message(line, 2)
                if headers_size > size:
                    raise Violation
            elif line.startswith(b"MSG "):
                sid, subject, reply, (size,) = _message(line, 1)
                headers_size = 0
            else:
                self._begin = at = body_at
                self._on_line(line)
                continue
            after = body_at + size + 2
            if after > end:
                self._wanted = after - at
                break
            if buffer[after - 2 : after] != _CRLF:
                raise Violation
            split = body_at + headers_size
            self._begin = at = after
            self._on_message(sid, subject, reply, bytes(view[body_at:split]), bytes(view[split : after - 2]))
        self._begin = at

    def _make_room(self) -> None:
        """Leave room behind ``_end`` for what is still to come of the message at ``_begin``, or for more."""
        size = len(self._buffer)
        if self._begin == self._end:
            self._begin = self._end = 0
            if size > _KEPT_BYTES:
                self._move_to(_ROOM_BYTES)
        elif size - self._begin < self._wanted or (not self._wanted and size - self._end < _ROOM_BYTES // 2):
            self._move_to(max(self._wanted, self._end - self._begin) + _ROOM_BYTES)

    def _move_to(self, size: int) -> None:
        """Move what is kept to the front of a buffer of at least *size* bytes."""
        kept = self._end - self._begin
        old = self._view[self._begin : self._end]
        if len(self._buffer) < size or len(self._buffer) > _KEPT_BYTES:
            self._buffer = bytearray(size)
            self._view = memoryview(self._buffer)
        self._view[:kept] = old
        self._begin, self._end = 0, kept


def _message(line: bytes, numbers: int) -> tuple[int, bytes, bytes, list[int]]:
    """Return what the line of a message says: subscription, subject, reply subject, and its *numbers* sizes."""
    words = line.split()
    sizes = words[-numbers:]
    if not 3 <= len(words) - numbers <= 4 or not all(map(bytes.isdigit, (words[2], *sizes))):
        raise Violation
    reply = words[3] if len(words) - numbers == 4 else b""
    found = [int(size) for size in sizes if len(size) < 10]
    if len(found) != numbers or found[-1] > MAX_MESSAGE_BYTES or len(words[2]) > 18:
        raise Violation
    return int(words[2]), words[1], reply, found
