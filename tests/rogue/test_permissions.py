"""Every role, beyond its own subjects

What a role is not granted is refused by the server, whatever code the rogue runs. Here each role takes up every
grant of every other; ``tests/authority/test_matrix.py`` tries every role against every single action.
"""

from __future__ import annotations

from typing import Final

import pytest

from hookbus.authority.roles import Role, grants
from tests.authority.actions import WHO
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.rogue.matrix import Stop, tried

pytestmark = pytest.mark.anyio

_HB: Final = "hb.v1.default"
_API: Final = "$JS.streams.API"
#: Another of the same role.
OTHERS: Final = {
    Role.AGENT: "payroll",
    Role.WORKER: "redactor",
    Role.APPROVER: "bob",
    Role.AUDITOR: "eve",
    Role.OPERATOR: "otto",
    Role.STORE: "hookbus-rate-limit",
}


def taken_up(role: Role, tenant: str, name: str) -> set[tuple[str, str, str]]:
    """Return one verb, subject and queue group for each grant of *name*, with what is published made literal."""
    granted = grants(role, tenant, name)
    published = {subject.replace("*", "any").replace(">", "any") for subject in granted.publish}
    heard = {(subject, "") if " " not in subject else tuple(subject.split()) for subject in granted.subscribe}
    return {("publish", subject, "") for subject in published} | {("subscribe", *one) for one in heard}


async def refusals(wire: Wire, actions: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """Return those of *actions* that the server refused."""
    refused = set()
    for action in sorted(actions):
        verb, subject, queue = action
        told = len(wire.errors)
        if verb == "publish":
            wire.publish(subject, b"")
        else:
            wire.subscribe(subject, queue)
        await wire.flush()
        if wire.errors[told:]:
            (refusal,) = wire.errors[told:]
            assert "Permissions Violation" in refusal
            assert f'"{subject}"' in refusal
            refused.add(action)
    return refused


@pytest.mark.parametrize(
    ("role", "other"),
    [
        pytest.param(
            role,
            other,
            marks=tried(
                f"{role}",
                f"does what the role `{other}` may",
                Stop.PERMISSION,
                shows="refused",
            ),
        )
        for role in Role
        for other in Role
        if role is not other
    ],
)
async def test_a_role_may_do_nothing_of_another(deployed: Deployment, role: Role, other: Role) -> None:
    own, others = taken_up(role, "default", WHO[role]), taken_up(other, "default", WHO[other])
    # An operator looks at the durables that it makes for others; nothing else is shared.
    shared = {one for one in others if role is Role.OPERATOR and one[1].startswith(f"{_API}.CONSUMER.INFO.")}
    async with deployed.wire(role, WHO[role]) as wire:
        assert await refusals(wire, others) == others - shared
        assert await refusals(wire, own) == set()


@pytest.mark.parametrize(
    "role",
    [
        pytest.param(
            role,
            marks=tried(
                f"{role}", "does what another of the same role may, in that name", Stop.PERMISSION, shows="refused"
            ),
        )
        for role in Role
    ],
)
async def test_a_role_may_do_nothing_in_another_name(deployed: Deployment, role: Role) -> None:
    others = taken_up(role, "default", OTHERS[role]) - taken_up(role, "default", WHO[role])
    assert others
    async with deployed.wire(role, WHO[role]) as wire:
        assert await refusals(wire, others) == others


@pytest.mark.parametrize(
    "role",
    [
        pytest.param(
            role, marks=tried(f"{role}", "does the same in another tenant", Stop.PERMISSION, shows="refused")
        )
        for role in Role
    ],
)
async def test_a_role_may_do_nothing_in_another_tenant(deployed: Deployment, role: Role) -> None:
    others = {action for action in taken_up(role, "acme", WHO[role]) if "acme" in action[1]}
    async with deployed.wire(role, WHO[role]) as wire:
        assert await refusals(wire, others) == others


@tried(
    "anybody of another tenant",
    "uses what has no tenant in its subject: inboxes, `$SRV`, the streams' API",
    Stop.ACCOUNT,
    shows="reaches its own tenant only",
)
async def test_what_has_no_tenant_in_its_subject_stays_in_its_account(deployed: Deployment) -> None:
    inbox = "_INBOX.operator.olga.1"
    async with (
        deployed.wire(Role.OPERATOR, "olga") as olga,
        deployed.wire(Role.WORKER, "policy") as policy,
        deployed.wire(Role.OPERATOR, "olga", "acme") as other_operator,
        deployed.wire(Role.WORKER, "policy", "acme") as other_worker,
    ):
        olga.subscribe(inbox)
        policy.subscribe("$SRV.PING")
        for wire in (olga, policy):
            await wire.flush()
        other_worker.publish(inbox, b"of acme")
        other_operator.publish("$SRV.PING", b"", reply=inbox)
        other_operator.subscribe(inbox)
        told = await other_operator.request(f"{_API}.STREAM.INFO.RECORDS", inbox=inbox)
        for wire in (other_worker, other_operator, olga, policy):
            await wire.flush()
            assert wire.errors == []
        assert (olga.waiting(), policy.waiting()) == ([], [])
        assert b'"subjects":["hb.v1.acme.rec.\\u003e"]' in told.body.replace(b">", b"\\u003e")


#: What is neither another role's nor another name's, by who tries it.
BEYOND: Final = [
    (
        Role.WORKER,
        "hears the questions outside the queue group",
        [
            ("subscribe", f"{_HB}.ctx.policy.*.*", ""),
            ("subscribe", f"{_HB}.ctx.policy.>", ""),
            ("subscribe", f"{_HB}.ctx.policy.input.travel", ""),
        ],
    ),
    (
        Role.WORKER,
        "hears the questions in a queue group of another name",
        [("subscribe", f"{_HB}.ctx.policy.*.*", "redactor"), ("subscribe", f"{_HB}.ctx.policy.*.*", "mine")],
    ),
    (
        Role.WORKER,
        "hears more than its interceptor's questions",
        [
            ("subscribe", f"{_HB}.ctx.*.*.*", "policy"),
            ("subscribe", f"{_HB}.ctx.>", "policy"),
            ("subscribe", f"{_HB}.>", "policy"),
            ("subscribe", ">", ""),
        ],
    ),
    (
        Role.WORKER,
        "hears another interceptor's second attempts, by a worker's own subject or all",
        [
            ("subscribe", f"{_HB}.ctx.redactor.*.*.w1", ""),
            ("subscribe", f"{_HB}.ctx.redactor.*.*.*", ""),
            ("subscribe", f"{_HB}.ctx.*.*.*.*", ""),
        ],
    ),
    (
        Role.WORKER,
        "hears agents' answers, or its own",
        [("subscribe", f"{_HB}.ans.>", ""), ("subscribe", f"{_HB}.ans.policy.travel.*.*", "")],
    ),
    (Role.WORKER, "hears what operators and agents hear on inboxes", [("subscribe", "_INBOX.>", "")]),
    (
        Role.AGENT,
        "hears all answers, or those of several agents",
        [("subscribe", f"{_HB}.ans.>", ""), ("subscribe", f"{_HB}.ans.*.*.*.*", "")],
    ),
    (
        Role.AGENT,
        "hears the questions of others, and its own",
        [
            ("subscribe", f"{_HB}.ctx.>", ""),
            ("subscribe", f"{_HB}.ctx.policy.input.travel", ""),
            ("subscribe", f"{_HB}.ctx.policy.input.travel", "policy"),
        ],
    ),
    (
        Role.AGENT,
        "asks with another version, more words, or fewer, in the subject",
        [
            ("publish", "hb.v2.default.ctx.policy.input.travel", ""),
            ("publish", f"{_HB}.ctx.policy.travel", ""),
            ("publish", f"{_HB}.ctx.policy.input.travel.w1.more", ""),
        ],
    ),
    (
        Role.AGENT,
        "reads another agent's decisions, requests, or any message of a stream",
        [
            ("publish", f"{_API}.DIRECT.GET.APPROVALS.{_HB}.apr.dec.payroll.a1.alice", ""),
            ("publish", f"{_API}.DIRECT.GET.APPROVALS.{_HB}.apr.dec.*.a1.alice", ""),
            ("publish", f"{_API}.DIRECT.GET.APPROVALS.{_HB}.apr.req.travel.a1", ""),
            ("publish", f"{_API}.DIRECT.GET.APPROVALS", ""),
            ("publish", f"{_API}.STREAM.MSG.GET.APPROVALS", ""),
        ],
    ),
    (
        Role.APPROVER,
        "decides in another's name, or adds to a request",
        [
            ("publish", f"{_HB}.apr.dec.travel.a1.bob", ""),
            ("publish", f"{_HB}.apr.dec.travel.a1.alice.more", ""),
            ("publish", f"{_HB}.apr.req.travel.a1", ""),
        ],
    ),
    (
        Role.APPROVER,
        "reads records, or through another's durable, or makes one",
        [
            ("publish", f"{_API}.CONSUMER.MSG.NEXT.RECORDS.approver-alice", ""),
            ("publish", f"{_API}.CONSUMER.MSG.NEXT.APPROVALS.approver-bob", ""),
            ("publish", f"{_API}.CONSUMER.CREATE.APPROVALS.approver-alice", ""),
            ("publish", f"{_API}.CONSUMER.DURABLE.CREATE.APPROVALS.approver-alice", ""),
        ],
    ),
    (
        Role.AUDITOR,
        "reads through another's durable, takes messages from it, or makes one",
        [
            ("publish", f"{_API}.CONSUMER.MSG.NEXT.RECORDS.auditor-eve", ""),
            ("publish", "$JS.ACK.RECORDS.auditor-eve.1.1.1.1.0", ""),
            ("publish", f"{_API}.CONSUMER.CREATE.RECORDS.auditor-ada", ""),
            ("publish", f"{_API}.STREAM.MSG.GET.RECORDS", ""),
            ("publish", f"{_API}.DIRECT.GET.RECORDS.{_HB}.rec.travel.input", ""),
        ],
    ),
    (
        Role.AUDITOR,
        "writes what it may read",
        [("publish", f"{_HB}.rec.travel.input", ""), ("publish", f"{_HB}.apr.dec.travel.a1.ada", "")],
    ),
    (
        Role.OPERATOR,
        "deletes, purges, empties, changes or restores a stream",
        [
            ("publish", f"$JS.{domain}API.{verb}.{stream}", "")
            for domain in ("", "streams.")
            for stream in ("RECORDS", "APPROVALS")
            for verb in (
                "STREAM.DELETE",
                "STREAM.PURGE",
                "STREAM.MSG.DELETE",
                "STREAM.UPDATE",
                "STREAM.RESTORE",
                "CONSUMER.DELETE",
                "CONSUMER.PAUSE",
            )
        ],
    ),
    (
        Role.OPERATOR,
        "reads a message",
        [
            ("publish", f"{_API}.STREAM.MSG.GET.RECORDS", ""),
            ("publish", f"{_API}.DIRECT.GET.APPROVALS.{_HB}.apr.dec.travel.a1.alice", ""),
            ("publish", f"{_API}.CONSUMER.MSG.NEXT.RECORDS.auditor-ada", ""),
            ("publish", f"{_API}.STREAM.SNAPSHOT.RECORDS", ""),
        ],
    ),
    (
        Role.OPERATOR,
        "writes a record, a request, a decision, a question or an answer",
        [
            ("publish", f"{_HB}.rec.travel.input", ""),
            ("publish", f"{_HB}.apr.req.travel.a1", ""),
            ("publish", f"{_HB}.apr.dec.travel.a1.alice", ""),
            ("publish", f"{_HB}.ctx.policy.input.travel", ""),
            ("publish", f"{_HB}.ans.policy.travel.c0ffee.1", ""),
        ],
    ),
    (
        Role.OPERATOR,
        "asks the server for its connections, its accounts, or to leave a cluster",
        [
            ("publish", "$SYS.REQ.SERVER.PING", ""),
            ("publish", "$SYS.REQ.ACCOUNT.PING.CONNZ", ""),
            ("publish", f"{_API}.SERVER.REMOVE", ""),
            ("publish", f"{_API}.ACCOUNT.PURGE.STREAMS_default", ""),
            ("subscribe", "$SYS.>", ""),
            ("subscribe", "$JS.EVENT.>", ""),
        ],
    ),
    (
        Role.STORE,
        "reads the records, the requests or the decisions",
        [
            ("publish", f"$JS.{domain}API.{verb}", "")
            for domain in ("", "streams.")
            for verb in (
                "STREAM.MSG.GET.RECORDS",
                f"DIRECT.GET.RECORDS.{_HB}.rec.travel.input",
                f"DIRECT.GET.APPROVALS.{_HB}.apr.req.travel.a1",
                f"DIRECT.GET.APPROVALS.{_HB}.apr.dec.travel.a1.alice",
                "CONSUMER.MSG.NEXT.RECORDS.auditor-ada",
                "CONSUMER.CREATE.RECORDS",
                "STREAM.INFO.RECORDS",
            )
        ],
    ),
    (
        Role.STORE,
        "deletes, purges, changes or restores its bucket, or takes a message out of it",
        [
            ("publish", f"$JS.{domain}API.{verb}.KV_hookbus-budget", "")
            for domain in ("", "streams.")
            for verb in (
                "STREAM.DELETE",
                "STREAM.PURGE",
                "STREAM.UPDATE",
                "STREAM.RESTORE",
                "STREAM.SNAPSHOT",
                "STREAM.MSG.DELETE",
                "CONSUMER.CREATE",
            )
        ],
    ),
    (
        Role.STORE,
        "makes, reads or writes another bucket, or another tenant's keys in its own",
        [
            ("publish", f"{_API}.STREAM.CREATE.KV_hookbus-rate-limit", ""),
            ("publish", "$JS.API.STREAM.CREATE.RECORDS", ""),
            ("publish", f"{_API}.DIRECT.GET.KV_hookbus-rate-limit.$KV.hookbus-rate-limit.default.key", ""),
            ("publish", "$KV.hookbus-rate-limit.default.key", ""),
            ("publish", "$KV.hookbus-budget.acme.key", ""),
        ],
    ),
    (
        Role.STORE,
        "asks a question, answers one, writes a record, a request or a decision",
        [
            ("publish", f"{_HB}.ctx.policy.input.travel", ""),
            ("publish", f"{_HB}.ans.policy.travel.c0ffee.1", ""),
            ("publish", f"{_HB}.ans.budget.travel.c0ffee.1", ""),
            ("publish", f"{_HB}.rec.travel.input", ""),
            ("publish", f"{_HB}.apr.req.travel.a1", ""),
            ("publish", f"{_HB}.apr.dec.travel.a1.alice", ""),
            ("publish", "$SRV.PING", ""),
        ],
    ),
    (
        Role.STORE,
        "hears everything, or what is written, or inboxes",
        [
            ("subscribe", ">", ""),
            ("subscribe", f"{_HB}.>", ""),
            ("subscribe", "$KV.>", ""),
            ("subscribe", "$KV.hookbus-budget.>", ""),
            ("subscribe", "_INBOX.>", ""),
            ("subscribe", "_INBOX.store.>", ""),
            ("subscribe", "$JS.>", ""),
        ],
    ),
]


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        pytest.param(role, set(actions), marks=tried(f"{role}", tries, Stop.PERMISSION, shows="refused"))
        for role, tries, actions in BEYOND
    ],
)
async def test_a_role_may_do_nothing_that_it_was_not_granted(
    deployed: Deployment, role: Role, actions: set[tuple[str, str, str]]
) -> None:
    async with deployed.wire(role, WHO[role]) as wire:
        assert await refusals(wire, actions) == actions
