"""Stores: one bucket, and nothing else that JetStream keeps

A store's user makes its bucket, so the bucket's configuration is the rogue's to write, and so is where the server
replies to it. The bucket is alone in an account where nobody connects. (``hookbus.authority.roles``)
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from hookbus.authority.roles import API, Role, inbox
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import PATIENCE_S
from tests.rogue.test_aimed import OWN, stored
from tests.rogue.test_streams import told

pytestmark = pytest.mark.anyio

_HB: Final = "hb.v1.default"
BUDGET: Final = "hookbus-budget"
RATES: Final = "hookbus-rate-limit"
PLAIN: Final = {"max_msgs_per_subject": 1, "allow_direct": True, "allow_msg_ttl": True, "allow_rollup_hdrs": True}


class Store:
    """A rogue with the key of a store, and the bucket that is its own."""

    def __init__(self, wire: Wire, name: str, tenant: str) -> None:
        self.wire = wire
        self.inbox = f"{inbox(Role.STORE, name)}.c0ffee"
        self._stream = f"KV_{name}"
        self.keys = f"$KV.{name}.{tenant}"
        wire.subscribe(self.inbox)

    async def make(self, **config: Any) -> dict[str, Any]:
        """Make the bucket, with any configuration; return what the server says."""
        body = json.dumps({"name": self._stream, **config}).encode()
        return await told(self.wire, f"{API}.STREAM.CREATE.{self._stream}", body, self.inbox)

    async def info(self) -> dict[str, Any]:
        """Return what the server says of the bucket, its subjects included."""
        body = b'{"subjects_filter":">"}'
        return await told(self.wire, f"{API}.STREAM.INFO.{self._stream}", body, self.inbox)

    async def write(self, body: bytes) -> dict[str, Any]:
        """Put *body* under the key ``key``."""
        return await told(self.wire, f"{self.keys}.key", body, self.inbox)

    def read_to(self, reply: str) -> None:
        """Have the server send what stands under ``key`` to *reply*."""
        self.wire.publish(f"{API}.DIRECT.GET.{self._stream}.{self.keys}.key", b"", reply=reply)


@tried("store", "makes its bucket a mirror of the records", Stop.ACCOUNT, shows="no such stream where it is")
async def test_a_bucket_copies_no_other_stream(own: Deployment) -> None:
    async with own.wire(Role.STORE, BUDGET) as wire:
        store = Store(wire, BUDGET, "default")
        assert "error" not in await store.make(mirror={"name": "RECORDS"}, allow_direct=True)
        # The server looks for the stream in its own time, and then says what became of it.
        async with asyncio.timeout(PATIENCE_S):
            while "error" not in (info := await store.info())["mirror"]:
                pass
        assert info["mirror"]["error"]["description"] == "stream not found"
        assert info["state"]["messages"] == 0


@tried(
    "store",
    "has its bucket take in what agents, approvers and other stores write",
    Stop.ACCOUNT,
    shows="nothing comes",
)
async def test_a_bucket_takes_in_what_its_own_store_writes_only(own: Deployment) -> None:
    async with (
        own.wire(Role.STORE, BUDGET) as wire,
        own.wire(Role.STORE, RATES) as other_wire,
        own.wire(Role.AGENT, "travel") as agent,
    ):
        store, other = Store(wire, BUDGET, "default"), Store(other_wire, RATES, "default")
        assert "error" not in await store.make(subjects=["hb.>", "$KV.>"], allow_direct=True)
        assert "error" not in await other.make(subjects=[f"$KV.{RATES}.>"], **PLAIN)
        agent.subscribe(OWN)
        assert (await told(agent, f"{_HB}.rec.travel.input", b"{}", OWN))["stream"] == "RECORDS"
        assert (await other.write(b"{}"))["stream"] == f"KV_{RATES}"
        assert (await store.write(b"{}"))["seq"] == 1
        assert list((await store.info())["state"]["subjects"]) == [f"{store.keys}.key"]


@tried(
    "store",
    "aims the server's replies at the deletion of a bucket, or into one, a stream, an agent's answers or an inbox",
    Stop.ACCOUNT,
    shows="nothing happens",
)
async def test_no_reply_to_a_store_leaves_its_account_or_is_obeyed(own: Deployment) -> None:
    async with (
        own.wire(Role.STORE, BUDGET) as wire,
        own.wire(Role.STORE, RATES) as other_wire,
        own.wire(Role.AGENT, "travel") as agent,
        own.wire(Role.AUDITOR, "ada") as auditor,
    ):
        store, other = Store(wire, BUDGET, "default"), Store(other_wire, RATES, "default")
        await store.make(subjects=[f"$KV.{BUDGET}.>"], **PLAIN)
        await other.make(subjects=[f"$KV.{RATES}.>"], **PLAIN)
        agent.subscribe(f"{_HB}.ans.*.travel.>")
        auditor.subscribe("_INBOX.auditor.ada.1")
        for party in (agent, auditor):
            await party.flush()
        aims = (
            *(
                f"{api}.STREAM.{verb}.{stream}"
                for api in ("$JS.API", API)
                for verb in ("PURGE", "DELETE")
                for stream in (f"KV_{BUDGET}", f"KV_{RATES}", "RECORDS")
            ),
            f"{store.keys}.aimed",
            f"{other.keys}.aimed",
            f"{_HB}.rec.travel.aimed",
            f"{_HB}.apr.dec.travel.aimed.alice",
            f"{_HB}.ans.policy.travel.c0ffee.1",
            "_INBOX.auditor.ada.1",
        )
        # A deletion wants an empty body and a purge does not mind one.
        written = await store.write(b"")
        for aim in aims:
            store.read_to(aim)
            wire.publish(f"{store.keys}.acknowledged", b"", reply=aim)
        # What is asked now is answered after all of it.
        store.read_to(store.inbox)
        assert (await wire.next()).headers.startswith(b"NATS/1.0\r\nNats-Stream: ")
        assert (await store.write(b""))["seq"] == written["seq"] + len(aims) + 1
        assert set((await store.info())["state"]["subjects"]) == {
            f"{store.keys}.key",
            f"{store.keys}.acknowledged",
        }
        assert (await other.info())["state"].get("subjects") is None
        for party in (agent, auditor):
            await party.flush()
            assert party.waiting() == []
        assert wire.errors == []
    held = await stored(own, "RECORDS") | await stored(own, "APPROVALS")
    assert not any("aimed" in subject for subject in held)
