"""A server that does what it likes: between one client and the real server, it changes what the client is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import NamedTuple, Self

from hookbus import envelope


class Frame(NamedTuple):
    """One message on its way to the client."""

    sid: str
    subject: str
    reply: str
    headers: bytes
    body: bytes

    def with_headers(self, **changes: str | None) -> Frame:
        """Return it with these headers instead, ``Hb_Id`` for ``Hb-Id``; None takes one out."""
        named = {name.replace("_", "-"): value for name, value in changes.items()}
        values = {**envelope.parse(self.headers).values, **named}
        return self._replace(
            headers=envelope.encode({name: value for name, value in values.items() if value is not None})
        )

    def __bytes__(self) -> bytes:
        size = len(self.headers) + len(self.body)
        verb, sizes = ("HMSG", f"{len(self.headers)} {size}") if self.headers else ("MSG", f"{size}")
        line = " ".join(filter(None, (verb, self.subject, self.sid, self.reply, sizes)))
        return line.encode() + b"\r\n" + self.headers + self.body + b"\r\n"


#: What becomes of one message: none, one or several.
Tamper = Callable[[Frame], Iterable[Frame]]


class HostileServer:
    """Stands in front of the server at *port* for one client at a time. Use as ``async with HostileServer(port)``.

    Every message for the client passes through ``tamper``, which changes nothing until a test replaces it, and is
    kept in ``seen`` as it came from the real server.
    """

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.tamper: Tamper = lambda frame: [frame]
        self.seen: list[Frame] = []
        #: The client's subscriptions: their numbers by subject.
        self.sids: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"nats://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def deliver(self, *frames: Frame) -> None:
        """Send the client *frames* of the server's own making."""
        self.say(b"".join(map(bytes, frames)))

    def say(self, data: bytes) -> None:
        """Send the client any bytes."""
        self._client.write(data)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._client = writer
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        for passing in (self._up(reader, up_writer), self._down(up_reader, writer)):
            task = asyncio.create_task(passing)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _until_closed(writer):
            while line := await reader.readline():
                words = line.decode().split()
                data = b""
                if words[0] in ("PUB", "HPUB"):
                    data = await reader.readexactly(int(words[-1]) + 2)
                elif words[0] == "SUB":
                    self.sids[words[1]] = words[-1]
                writer.write(line + data)

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _until_closed(writer):
            while line := await reader.readline():
                words = line.decode().split()
                if words[0] not in ("MSG", "HMSG"):
                    writer.write(line)
                    continue
                sizes = 2 if words[0] == "HMSG" else 1
                names, numbers = words[1:-sizes], [int(size) for size in words[-sizes:]]
                data = (await reader.readexactly(numbers[-1] + 2))[:-2]
                split = numbers[0] if sizes == 2 else 0
                reply = names[2] if len(names) > 2 else ""
                frame = Frame(names[1], names[0], reply, data[:split], data[split:])
                self.seen.append(frame)
                writer.write(b"".join(bytes(told) for told in self.tamper(frame)))


@contextlib.asynccontextmanager
async def _until_closed(writer: asyncio.StreamWriter):  # type: ignore[no-untyped-def]  # one line of plumbing
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            yield
    finally:
        writer.transport.abort()
