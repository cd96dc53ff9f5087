"""A client of a few lines over TLS that signs in with an nkey and hides nothing of what the server says."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from types import TracebackType
from typing import Self

import nkeys

from tests.contract.raw_nats import RawMessage, RawNats


class SignInRefused(Exception):
    """The server did not let the client in; the message is what it said."""


class Wire(RawNats):
    """Use as ``async with Wire(port, seed=..., ca=...) as wire``; ``seed`` is a file, None signs in as nobody."""

    def __init__(self, port: int, *, seed: Path | None, ca: Path | None) -> None:
        super().__init__(port)
        self._seed = seed
        self._ca = ca

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        info = json.loads((await self._reader.readline()).removeprefix(b"INFO "))
        if self._ca is not None:
            await self._writer.start_tls(ssl.create_default_context(cafile=self._ca), server_hostname="127.0.0.1")
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1}
        if self._seed is not None:
            pair = nkeys.from_seed(self._seed.read_bytes())
            options |= {
                "nkey": pair.public_key.decode(),
                "sig": base64.b64encode(pair.sign(info["nonce"].encode())).decode(),
            }
        self._writer.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        self._read = asyncio.create_task(self._read_all())
        signed_in = asyncio.create_task(self._pongs.get())
        await asyncio.wait([signed_in, self._read], return_when=asyncio.FIRST_COMPLETED)
        if not signed_in.done():
            signed_in.cancel()
            await self.__aexit__(None, None, None)
            raise SignInRefused(self.errors)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._read.cancel()
        await asyncio.wait([self._read])
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Return when the server has ended the connection."""
        await asyncio.wait([self._read])

    async def request(self, subject: str, body: bytes = b"", *, inbox: str) -> RawMessage:
        """Publish with *inbox*, where this client listens already, as the reply subject; return what comes."""
        self.publish(subject, body, reply=inbox)
        return await self.next()
