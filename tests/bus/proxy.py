"""A TCP proxy in front of a server, for what a network can do to a connection."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes between clients and the server at *port*; can cut, or say something of its own to clients."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        #: Connections taken so far.
        self.taken = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._closed = True
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def say(self, data: bytes) -> None:
        """Send *data* to every client, as if the server had."""
        for writer in self._writers:
            writer.write(data)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        self._writers.append(writer)
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except BaseException:
            writer.transport.abort()
            raise
        if self._closed or writer.transport.is_closing():
            up_writer.transport.abort()
            writer.transport.abort()
            return
        for source, target in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(_pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
    finally:
        writer.transport.abort()
