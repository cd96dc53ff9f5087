"""A JetStream key-value bucket over a connection of its own: read a key, replace it if nobody else did.

The protocol is that of NATS ADR-8 with the server's per-message TTL, which its clients set only on creation. It
goes over :class:`hookbus.Connection`, so every rule of that connection holds here: nothing is buffered while it is
down, and each request ends by our own clock.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel, ConfigDict, Field

import hookbus
from hookbus import envelope
from hookbus_interceptors.store.errors import EntryUnreadable, StoreDown, StoreRefused, StoreSilent

#: What making the bucket may take at the start.
START_S: Final = 5.0
_STREAM_NOT_FOUND: Final = 10059
_WRONG_LAST_SEQUENCE: Final = (10071, 10164)
_ERASED: Final = ("KV-Operation", "Nats-Marker-Reason")


class StoreSettings(BaseModel):
    """Where the shared values are. Changed by a restart only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: A file of connection settings, as for ``HOOKBUS_CONFIG``; the worker's own connection settings without one.
    settings: Path | None = None
    #: The bucket, made if it is not there.
    bucket: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    #: The JetStream domain, where the store's account reaches JetStream through one.
    domain: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{1,64}$")
    #: Copies that a bucket made here has in a cluster.
    replicas: int = Field(default=1, ge=1, le=5)
    #: Where answers come in.
    inbox: str = Field(default="_INBOX", pattern=r"^[A-Za-z0-9_.-]{1,128}$")


class Entry(NamedTuple):
    """What stands under a key; revision 0 and no bytes where nothing does."""

    revision: int
    value: bytes


NOTHING: Final = Entry(0, b"")


class Bucket:
    """The bucket that *settings* name, while :meth:`opened`; :class:`StoreDown` otherwise."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._bus: hookbus.Connection | None = None
        self._inbox = f"{settings.inbox}.{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        self._pending: dict[str, asyncio.Future[hookbus.Message]] = {}
        self._stream = f"KV_{settings.bucket}"
        self._api = f"$JS.{settings.domain}.API" if settings.domain else "$JS.API"
        self._keys = ""

    @asynccontextmanager
    async def opened(self, worker: hookbus.Settings) -> AsyncIterator[None]:
        """Hold a connection to the bucket, made if need be; *worker* are the settings of the worker's own.

        Keys are of the worker's tenant: another tenant's never meet them. Raises :class:`CannotConnect`,
        :class:`SettingsInvalid`, :class:`StoreRefused` and :class:`StoreSilent`.
        """
        chosen = hookbus.read_settings(self.settings.settings) if self.settings.settings is not None else worker
        self._keys = f"$KV.{self.settings.bucket}.{worker.tenant}"
        # No question goes over it: it neither signs nor trusts.
        own = chosen.model_copy(update={"name": "hookbus store", "signing_key": None, "trust": None})
        async with hookbus.Connection(own) as self._bus:
            serving = self._bus.serve([f"{self._inbox}.*"], "", self._take, on_refused=_ignore)
            try:
                await self._make()
                yield
            finally:
                await serving.drain(timeout_s=1.0)
                self._bus = None

    async def read(self, key: str, *, timeout_s: float) -> Entry:
        """Return what stands under *key*.

        A deletion or an expiry that left a mark is not nothing: it raises :class:`EntryUnreadable`, for nobody
        knows what was counted there. Raises :class:`StoreDown`, :class:`StoreRefused` and :class:`StoreSilent`.
        """
        subject = f"{self._api}.DIRECT.GET.{self._stream}.{self._subject(key)}"
        reply = await self._request(subject, b"", timeout_s=timeout_s)
        try:
            status, values = envelope.parse(reply.headers)
        except hookbus.HeadersMalformed:
            raise EntryUnreadable from None
        if status == "404":
            return NOTHING
        if status is not None:
            raise StoreRefused(int(status), "a read")
        revision = values.get("Nats-Sequence", "")
        if any(name in values for name in _ERASED) or not revision.isdecimal() or not reply.body:
            raise EntryUnreadable
        return Entry(int(revision), reply.body)

    async def replace(self, key: str, value: bytes, *, revision: int, ttl_s: int, timeout_s: float) -> bool:
        """Put *value* under *key* if its revision is still *revision*; return whether it was.

        The server forgets the value ``ttl_s`` seconds later. After :class:`StoreSilent` and :class:`StoreDown` it
        is not known whether the value stands. Raises :class:`StoreRefused` and :class:`BodyTooLarge` as well.
        """
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision), "Nats-TTL": str(ttl_s)}
        reply = await self._request(self._subject(key), value, envelope.encode(headers), timeout_s=timeout_s)
        error = _error(reply)
        if error in _WRONG_LAST_SEQUENCE:
            return False
        if error is not None:
            raise StoreRefused(error, "a write")
        return True

    def _subject(self, key: str) -> str:
        return f"{self._keys}.{key}"

    async def _make(self) -> None:
        async def api(verb: str, body: Mapping[str, Any] | None = None) -> int | None:
            sent = msgspec.json.encode(body) if body is not None else b""
            return _error(await self._request(f"{self._api}.{verb}.{self._stream}", sent, timeout_s=START_S))

        error = await api("STREAM.INFO")
        if error == _STREAM_NOT_FOUND:
            configuration = {
                "name": self._stream,
                "subjects": [f"$KV.{self.settings.bucket}.>"],
                "storage": "file",
                "num_replicas": self.settings.replicas,
                "max_msgs_per_subject": 1,
                "discard": "new",
                "allow_direct": True,
                "allow_msg_ttl": True,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
            }
            error = await api("STREAM.CREATE", configuration)
        if error is not None:
            raise StoreRefused(error, "the bucket")

    async def _request(
        self, subject: str, body: bytes, headers: bytes = b"", *, timeout_s: float
    ) -> hookbus.Message:
        if self._bus is None:
            raise StoreDown
        number = str(next(self._numbers))
        reply: asyncio.Future[hookbus.Message] = asyncio.get_running_loop().create_future()
        self._pending[number] = reply
        try:
            self._bus.publish(subject, body, headers, f"{self._inbox}.{number}")
            await asyncio.wait([reply], timeout=timeout_s)
        except hookbus.BusDown:
            raise StoreDown from None
        finally:
            del self._pending[number]
        if not reply.done():
            raise StoreSilent
        return reply.result()

    def _take(self, message: hookbus.Message) -> None:
        reply = self._pending.get(message.subject.rpartition(".")[2])
        if reply is not None and not reply.done():
            reply.set_result(message)


class _Error(msgspec.Struct, frozen=True):
    err_code: int = 0
    code: int = 0


class _Ack(msgspec.Struct, frozen=True):
    """What every answer of JetStream's API has."""

    error: _Error | None = None


def _error(reply: hookbus.Message) -> int | None:
    """Return the error code in *reply*, an answer of JetStream's API; None where all is well."""
    if not reply.body:
        return 503
    try:
        error = msgspec.json.decode(reply.body, type=_Ack).error
    except msgspec.DecodeError:
        return 500
    return None if error is None else error.err_code or error.code


def _ignore(_subject: str) -> None:
    # Without its answers every request is silent, which says so.
    return
