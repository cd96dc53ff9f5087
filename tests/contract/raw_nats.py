"""A NATS client of a few lines on a plain socket: it sends whatever bytes a test wants and hides nothing."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import NamedTuple, Self


class RawMessage(NamedTuple):
    subject: str
    reply: str
    headers: bytes
    body: bytes


class RawNats:
    """Use as ``async with RawNats(port) as raw``. Everything the server says is kept in order."""

    def __init__(self, port: int, user: str | None = None) -> None:
        self._port = port
        self._user = user
        self._messages: asyncio.Queue[RawMessage] = asyncio.Queue()
        self._pongs: asyncio.Queue[None] = asyncio.Queue()
        #: What the server said with ``-ERR``.
        self.errors: list[str] = []
        self.max_payload = 0
        self._sid = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        info = json.loads((await self._reader.readline()).removeprefix(b"INFO "))
        self.max_payload = info["max_payload"]
        options: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "protocol": 1,
        }
        if self._user is not None:
            options |= {"user": self._user, "pass": self._user}
        self._writer.write(b"CONNECT " + json.dumps(options).encode() + b"\r\n")
        self._read = asyncio.create_task(self._read_all())
        await self.flush()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._read.cancel()
        await asyncio.wait([self._read])
        self._writer.close()
        await self._writer.wait_closed()

    async def _read_all(self) -> None:
        while line := await self._reader.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            if verb == "PING":
                self._writer.write(b"PONG\r\n")
            elif verb == "PONG":
                self._pongs.put_nowait(None)
            elif verb == "-ERR":
                self.errors.append(rest)
            elif verb in ("MSG", "HMSG"):
                head = rest.split()
                sizes = 2 if verb == "HMSG" else 1
                names, numbers = head[:-sizes], [int(number) for number in head[-sizes:]]
                data = (await self._reader.readexactly(numbers[-1] + 2))[:-2]
                split = numbers[0] if verb == "HMSG" else 0
                self._messages.put_nowait(
                    RawMessage(names[0], names[2] if len(names) > 2 else "", data[:split], data[split:])
                )

    def subscribe(self, subject: str, queue: str = "") -> None:
        self._sid += 1
        self._writer.write(f"SUB {subject} {queue} {self._sid}\r\n".encode())

    def publish(self, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> None:
        size = len(headers) + len(body)
        if headers:
            self._writer.write(
                f"HPUB {subject} {reply} {len(headers)} {size}\r\n".encode() + headers + body + b"\r\n"
            )
        else:
            self._writer.write(f"PUB {subject} {reply} {size}\r\n".encode() + body + b"\r\n")

    async def flush(self) -> None:
        """Return when the server has done all that was sent before, and what it had to say is here."""
        self._writer.write(b"PING\r\n")
        await self._pongs.get()

    async def next(self) -> RawMessage:
        """Return the next message."""
        return await self._messages.get()

    def waiting(self) -> list[RawMessage]:
        """Return, and take, the messages that are here."""
        taken = []
        while not self._messages.empty():
            taken.append(self._messages.get_nowait())
        return taken
