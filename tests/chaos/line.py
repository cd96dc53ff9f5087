"""A line to the server that can be cut, refused and held: what a network does to one client."""

from __future__ import annotations

import asyncio
import contextlib

from tests.bus.proxy import Proxy


class Line(Proxy):
    """A proxy whose clients can be kept out, and whose bytes can be held back and delivered later."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        #: Whether new connections are reset at once.
        self.refusing = False
        self._flows = asyncio.Event()
        self._flows.set()

    def hold(self) -> None:
        """Let nothing through, either way; connections stay open."""
        self._flows.clear()

    def let_go(self) -> None:
        """Let through what was held, and all that follows."""
        self._flows.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        try:
            if self.refusing:
                raise ConnectionRefusedError
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(writer)
        for source, target in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await reader.read(65536):
                    await self._flows.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.transport.abort()
