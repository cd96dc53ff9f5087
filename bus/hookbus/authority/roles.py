"""What each role may publish and subscribe to: the contract's table of subjects as permissions.

Four accounts for each tenant. Questions and answers travel in QUESTIONS; the streams live in STREAMS, where
nobody connects at all; approvers and auditors connect to REVIEWS, stores to STORES. What crosses is listed in
:func:`crossings` and is a service each time, so that an answer of JetStream goes back to who asked and never into
another stream: a pull in the streams' own account could be aimed at a subject that a stream takes in.

Each bucket lives in one more account, alone: whoever may make a stream can have it copy what others there hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from hookbus.subjects import ROOT, token

#: The two streams of each tenant.
RECORDS: Final = "RECORDS"
APPROVALS: Final = "APPROVALS"
#: What stands for ``$JS.API`` outside the account that JetStream is in (``nats --js-domain streams``).
DOMAIN: Final = "streams"
API: Final = f"$JS.{DOMAIN}.API"


class Role(StrEnum):
    """Who somebody is to the server."""

    AGENT = "agent"
    WORKER = "worker"
    APPROVER = "approver"
    AUDITOR = "auditor"
    OPERATOR = "operator"
    #: A key-value bucket of this name, and whoever reads and writes it.
    STORE = "store"


class Plane(StrEnum):
    """An account of a tenant that somebody connects to."""

    QUESTIONS = "QUESTIONS"
    REVIEWS = "REVIEWS"
    STORES = "STORES"


class Grants(msgspec.Struct, frozen=True):
    """All that one user may do, in NATS permission syntax (``subject`` or ``subject queue``).

    Neither is ever empty: to the server an empty list permits everything.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


class Crossing(msgspec.Struct, frozen=True):
    """A subject of STREAMS, or of a bucket's account, that ``plane`` reaches as the service ``local``."""

    plane: Plane
    subject: str
    local: str
    #: Whether one request may bring several messages.
    many: bool = False
    #: The bucket in whose account the subject is; empty for STREAMS.
    bucket: str = ""


#: The account that each role connects to.
PLANE: Final = {
    Role.AGENT: Plane.QUESTIONS,
    Role.WORKER: Plane.QUESTIONS,
    Role.OPERATOR: Plane.QUESTIONS,
    Role.APPROVER: Plane.REVIEWS,
    Role.AUDITOR: Plane.REVIEWS,
    Role.STORE: Plane.STORES,
}

#: Whose durables stand on which streams; nobody but an operator makes one.
READS: Final = {Role.APPROVER: (APPROVALS,), Role.AUDITOR: (RECORDS, APPROVALS)}

_SRV: Final = ("PING", "INFO", "STATS")

# Neither UPDATE (a lower limit deletes), DELETE, PURGE, SNAPSHOT, RESTORE nor anything that reads a message.
_ADMINISTRATION: Final = (
    "INFO",
    "STREAM.NAMES",
    "STREAM.LIST",
    *(
        f"{verb}.{stream}"
        for stream in (RECORDS, APPROVALS)
        for verb in ("STREAM.CREATE", "STREAM.INFO", "CONSUMER.NAMES", "CONSUMER.LIST")
    ),
    *(f"{verb}.{stream}.>" for stream in (RECORDS, APPROVALS) for verb in ("CONSUMER.CREATE", "CONSUMER.INFO")),
)


def inbox(role: Role, name: str) -> str:
    """Return the inbox prefix of a role that has one: nobody else of its account may listen there."""
    return f"_INBOX.{role}.{token(name)}"


def durable(role: Role, name: str) -> str:
    """Return the name of the durable consumer through which an approver or auditor reads a stream."""
    return f"{role}-{token(name)}"


def grants(role: Role, tenant: str, name: str) -> Grants:
    """Return the least that *name* needs to be a *role* in *tenant*. (Contract, section 1.)"""
    root, own = f"{ROOT}.{tenant}", token(name)
    match role:
        case Role.AGENT:
            # Replies of the streams come on the agent's own answer subjects too: whoever may publish to an
            # inbox could forge them.
            return Grants(
                (
                    f"{root}.ctx.*.*.{own}",
                    f"{root}.ctx.*.*.{own}.*",
                    f"{root}.rec.{own}.*",
                    f"{root}.apr.req.{own}.*",
                    f"{API}.DIRECT.GET.{APPROVALS}.{root}.apr.dec.{own}.>",
                ),
                (f"{root}.ans.*.{own}.>",),
            )
        case Role.WORKER:
            # Verb by verb: to the server a subscription to $SRV.> is one of the subjects of $SRV.*.
            asked = tuple(f"$SRV.{verb}{which}" for verb in _SRV for which in ("", f".{own}", f".{own}.*"))
            questions = (f"{root}.ctx.{own}.*.* {own}", f"{root}.ctx.{own}.*.*.*")
            return Grants((f"{root}.ans.{own}.>", "_INBOX.>"), (*questions, *asked))
        case Role.APPROVER:
            read = _reading(role, name)
            return Grants((f"{root}.apr.dec.*.*.{own}", *read.publish), read.subscribe)
        case Role.AUDITOR:
            return _reading(role, name)
        case Role.OPERATOR:
            return Grants(("$SRV.>", *(f"{API}.{verb}" for verb in _ADMINISTRATION)), (f"{inbox(role, name)}.>",))
        case Role.STORE:
            return Grants(tuple(c.local for c in _store_crossings(tenant, own)), (f"{inbox(role, name)}.>",))


def _reading(role: Role, name: str) -> Grants:
    publish: list[str] = []
    for stream in READS[role]:
        own = f"{stream}.{durable(role, name)}"
        publish += [f"{API}.CONSUMER.MSG.NEXT.{own}", f"{API}.CONSUMER.INFO.{own}", f"$JS.ACK.{own}.>"]
    return Grants(tuple(publish), (f"{inbox(role, name)}.>",))


def crossings(tenant: str, buckets: Iterable[str] = ()) -> tuple[Crossing, ...]:
    """Return everything that passes between the accounts of *tenant*, and nothing else does."""
    root = f"{ROOT}.{tenant}"
    decisions = f"DIRECT.GET.{APPROVALS}.{root}.apr.dec.>"
    return (
        Crossing(Plane.QUESTIONS, f"{root}.rec.>", f"{root}.rec.>"),
        Crossing(Plane.QUESTIONS, f"{root}.apr.req.>", f"{root}.apr.req.>"),
        Crossing(Plane.QUESTIONS, f"$JS.API.{decisions}", f"{API}.{decisions}"),
        *(Crossing(Plane.QUESTIONS, f"$JS.API.{verb}", f"{API}.{verb}") for verb in _ADMINISTRATION),
        Crossing(Plane.REVIEWS, f"{root}.apr.dec.>", f"{root}.apr.dec.>"),
        *(crossing for stream in (RECORDS, APPROVALS) for crossing in _read_crossings(stream)),
        *(crossing for bucket in buckets for crossing in _store_crossings(tenant, bucket)),
    )


def _store_crossings(tenant: str, bucket: str) -> tuple[Crossing, ...]:
    # The bucket is made if it is missing, and read and written by key; never changed, purged, deleted or consumed.
    stream, keys = f"KV_{bucket}", f"$KV.{bucket}.{tenant}.>"
    verbs = (f"STREAM.INFO.{stream}", f"STREAM.CREATE.{stream}", f"DIRECT.GET.{stream}.{keys}")
    return (
        *(Crossing(Plane.STORES, f"$JS.API.{verb}", f"{API}.{verb}", bucket=bucket) for verb in verbs),
        Crossing(Plane.STORES, keys, keys, bucket=bucket),
    )


def _read_crossings(stream: str) -> tuple[Crossing, ...]:
    pull, info, ack = f"CONSUMER.MSG.NEXT.{stream}.*", f"CONSUMER.INFO.{stream}.*", f"$JS.ACK.{stream}.>"
    return (
        Crossing(Plane.REVIEWS, f"$JS.API.{pull}", f"{API}.{pull}", many=True),
        Crossing(Plane.REVIEWS, f"$JS.API.{info}", f"{API}.{info}"),
        Crossing(Plane.REVIEWS, ack, ack),
    )
