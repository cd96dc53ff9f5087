"""The streams and durables of a tenant, made in advance by an operator on the running server.

Approvers and auditors read through durables that stand already and can neither make nor change one: whoever makes
a consumer chooses what it shows and where it delivers. (Architecture, "Authority".)
"""

from __future__ import annotations

import asyncio
import secrets
import tomllib
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

import hookbus
from hookbus.authority.changes import Authority
from hookbus.authority.errors import NameUnknown, StreamRefused
from hookbus.authority.roles import API, APPROVALS, READS, RECORDS, Role, durable, inbox
from hookbus.subjects import ROOT

_PATIENCE_S: Final = 5.0


def streams(tenant: str, *, replicas: int) -> dict[str, dict[str, Any]]:
    """Return the configuration of the two streams: nothing in them is deleted, purged or overwritten."""
    kept: dict[str, Any] = {
        "storage": "file",
        "retention": "limits",
        # A full stream refuses what is new; dropping what is old would lose records unseen.
        "discard": "new",
        "num_replicas": replicas,
        "deny_delete": True,
        "deny_purge": True,
    }
    return {
        RECORDS: {"name": RECORDS, "subjects": [f"{ROOT}.{tenant}.rec.>"], **kept},
        APPROVALS: {
            "name": APPROVALS,
            "subjects": [f"{ROOT}.{tenant}.apr.>"],
            # One message for each subject, and a second is refused: a decision is made once.
            "max_msgs_per_subject": 1,
            "discard_new_per_subject": True,
            # An agent reads decisions about its own requests by subject.
            "allow_direct": True,
            **kept,
        },
    }


def durables(tenant: str, role: Role, name: str) -> dict[str, dict[str, Any]]:
    """Return the durable of an approver or auditor on each stream it reads; none for other roles."""
    reads: dict[str, dict[str, Any]] = {}
    for stream in READS.get(role, ()):
        reads[stream] = {
            "name": durable(role, name),
            "durable_name": durable(role, name),
            "ack_policy": "explicit",
            "deliver_policy": "all",
        }
        if role is Role.APPROVER:
            reads[stream]["filter_subject"] = f"{ROOT}.{tenant}.apr.req.>"
    return reads


async def make(authority: Authority, tenant: str, operator: str, *, replicas: int = 1) -> tuple[str, ...]:
    """Make what is missing of the streams and durables of *tenant*, as *operator*; return what stands now.

    What is there already is left as it is. Raises :class:`NameUnknown`, :class:`CannotConnect` and
    :class:`StreamRefused`, also when one stands that differs.
    """
    roster = authority.roster(tenant)
    roster.get(Role.OPERATOR, operator)
    settings = tomllib.loads(authority.layout.settings(tenant, Role.OPERATOR, operator).read_text("utf-8"))
    made: list[str] = []
    # As keywords, which come before what the environment says about somebody else.
    async with hookbus.connect(**settings) as bus, _Api(bus, operator) as api:
        for stream, config in streams(tenant, replicas=replicas).items():
            await api.request(f"STREAM.CREATE.{stream}", config, what=f"stream {stream}")
            made.append(f"stream {stream}")
        for reader in roster:
            for stream, config in durables(tenant, reader.role, reader.name).items():
                what = f"durable {config['name']} on {stream}"
                body = {"stream_name": stream, "config": config, "action": "create"}
                await api.request(f"CONSUMER.CREATE.{stream}.{config['name']}", body, what=what)
                made.append(what)
    return tuple(made)


def an_operator(authority: Authority, tenant: str) -> str:
    """Return the first operator of *tenant*; raises :class:`NameUnknown`."""
    operators = authority.roster(tenant).of(Role.OPERATOR)
    if not operators:
        raise NameUnknown(tenant, Role.OPERATOR, "", ())
    return operators[0].name


class _Api:
    """Requests to the streams' account, one at a time, with replies on the operator's own inbox."""

    def __init__(self, bus: hookbus.Connection, operator: str) -> None:
        self._bus = bus
        self._inbox = f"{inbox(Role.OPERATOR, operator)}.{secrets.token_hex(8)}"
        self._replies: asyncio.Queue[hookbus.Message] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._serving = self._bus.serve([self._inbox], "", self._replies.put_nowait, on_refused=_ignore)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.drain(timeout_s=_PATIENCE_S)

    async def request(self, verb: str, body: Mapping[str, Any], *, what: str) -> None:
        self._bus.publish(f"{API}.{verb}", msgspec.json.encode(body), reply=self._inbox)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reply = await self._replies.get()
        except TimeoutError:
            raise StreamRefused(what, "it does not answer, or does not permit it to this operator") from None
        if not reply.body:
            raise StreamRefused(what, "JetStream is not there")
        error = msgspec.json.decode(reply.body).get("error")
        if error is not None:
            raise StreamRefused(what, str(error.get("description", "no reason given")))


def _ignore(_subject: str) -> None:
    # The request that nobody answers says so.
    return
