"""Which workers are on the bus, and which policy each of them answers by, asked again and again."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
import msgspec

import hookbus

#: How often the roll is called.
INTERVAL_S: Final = 1.0


class Present(msgspec.Struct, frozen=True):
    """What a worker says of itself (ADR-32)."""

    id: str
    metadata: dict[str, str]


async def call_roll(url: str, tenant: str | None, present: Callable[[str, str], None], ended: anyio.Event) -> None:
    """Tell *present* the id and the policy of every worker that answers, at every call, until *ended*.

    A server that cannot be joined, or that does not permit it, is asked again and nothing is told meanwhile.
    """
    while not ended.is_set():
        with suppress(hookbus.CannotConnect):
            async with hookbus.connect(url, tenant=tenant, name="hookbus up") as bus:
                await _call(bus, present, ended)
        with anyio.move_on_after(INTERVAL_S):
            await ended.wait()


async def _call(bus: hookbus.Connection, present: Callable[[str, str], None], ended: anyio.Event) -> None:
    inbox = f"_INBOX.{secrets.token_hex(16)}"

    def receive(message: hookbus.Message) -> None:
        # Whoever else is on the bus may answer as it likes.
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            worker = msgspec.json.decode(message.body, type=Present)
            present(worker.id, worker.metadata.get("hb-policy", ""))

    bus.serve([inbox], "", receive, on_refused=lambda _subject: None)
    while not ended.is_set():
        with suppress(hookbus.BusDown):
            bus.publish("$SRV.PING", b"", reply=inbox)
        with anyio.move_on_after(INTERVAL_S):
            await ended.wait()
