"""A client that says exactly the bytes it is told, for what no library would send."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class RawClient:
    """A connection to the server at *port* on which tests write protocol lines themselves."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self._reader.readline()
        self._writer.write(b'CONNECT {"verbose":false,"headers":true,"protocol":1,"lang":"raw","version":"0"}\r\n')
        await self.flush()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def flush(self) -> None:
        """Return when the server has taken all that was written before."""
        self._writer.write(b"PING\r\n")
        while (await self._reader.readline()) != b"PONG\r\n":
            pass

    async def publish(self, subject: str, headers: bytes, body: bytes, reply: str = "") -> None:
        """Publish with exactly these header bytes."""
        size = len(headers) + len(body)
        line = f"HPUB {subject} {reply} {len(headers)} {size}\r\n".encode()
        self._writer.write(line + headers + body + b"\r\n")
        await self.flush()
