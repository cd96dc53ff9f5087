"""Replies aimed elsewhere

A reply subject is whatever its sender wrote, and the server checks it against no permission. Workers answer to the
agent's own answers or an inbox, or not at all. (Contract, C1.7 and C1.8.) What the streams reply is delivered
wherever the server was told to; there it is no question, no verdict and no record.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from hookbus.authority.roles import API, Role
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.client.scripted import until
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import ALLOW, Asked, Forged, asking, serving, signer_of

pytestmark = pytest.mark.anyio

_HB: Final = "hb.v1.default"
#: Where an agent has the streams reply.
OWN: Final = f"{_HB}.ans._streams.travel.c0ffee.1"
INBOX: Final = "_INBOX.operator.olga.1"


async def stored(deployed: Deployment, stream: str) -> dict[str, Any]:
    """Return the subjects that *stream* holds messages of, as the operator may ask."""
    async with deployed.wire(Role.OPERATOR, "olga") as operator:
        operator.subscribe(INBOX)
        told = await operator.request(f"{API}.STREAM.INFO.{stream}", b'{"subjects_filter":">"}', inbox=INBOX)
    subjects: dict[str, Any] = json.loads(told.body)["state"].get("subjects", {})
    return subjects


def question_aimed(*targets: str, tries: str) -> Any:
    marks = tried("agent", f"has its question answered {tries}", Stop.REPLY, shows="dropped, not evaluated")
    return pytest.param(targets, marks=marks)


@pytest.mark.parametrize(
    "targets",
    [
        question_aimed(
            "$JS.API.STREAM.DELETE.RECORDS",
            "$JS.streams.API.STREAM.DELETE.RECORDS",
            "$JS.streams.API.CONSUMER.CREATE.RECORDS.auditor-ada",
            tries="into the streams' API",
        ),
        question_aimed(f"{_HB}.ans.policy.payroll.c0ffee.1", tries="among another agent's answers"),
        question_aimed(f"{_HB}.ans.redactor.travel.c0ffee.1", tries="as if by another interceptor"),
        question_aimed(INBOX, "_INBOX.approver.alice.1", tries="to an inbox"),
        question_aimed(
            f"{_HB}.rec.payroll.input",
            f"{_HB}.apr.dec.travel.a1.alice",
            tries="into a stream, as a record or a decision",
        ),
        question_aimed(f"{_HB}.ctx.policy.input.payroll", "$SRV.PING", tries="as a question, or to all workers"),
        question_aimed("hb.v1.acme.ans.policy.travel.c0ffee.1", tries="in another tenant"),
        question_aimed(
            f"{_HB}.ans.policy.traveller.c0ffee.1",
            f"{_HB}.ans.policy.travel",
            f"{_HB}.ans.policy.*.c0ffee.1",
            "hb.v2.default.ans.policy.travel.c0ffee.1",
            tries="to what only begins like its own answers",
        ),
    ],
)
async def test_a_worker_answers_to_its_agents_answers_or_not_at_all(
    deployed: Deployment, targets: tuple[str, ...]
) -> None:
    signer = signer_of(deployed, Role.AGENT, "travel")
    async with (
        serving(deployed) as policy,
        deployed.wire(Role.AGENT, "travel") as rogue,
        deployed.wire(Role.AGENT, "payroll") as payroll,
        deployed.wire(Role.OPERATOR, "olga") as olga,
    ):
        payroll.subscribe(f"{_HB}.ans.*.payroll.c0ffee.*")
        olga.subscribe(INBOX)
        for wire in (payroll, olga):
            await wire.flush()
        for target in targets:
            # Signed as it stands: the reply rule alone has to hold.
            question = Forged.of(signer, reply=target)
            rogue.publish(question.subject, question.body, question.headers, question.reply)
        await until(lambda: policy.count("unanswerable") == len(targets))
        await policy.bus.flush(timeout_s=20)
        for wire in (rogue, payroll, olga):
            await wire.flush()
            assert (wire.waiting(), wire.errors) == ([], [])
        assert policy.policy.asked == 0


@tried(
    "operator",
    "has `$SRV` requests answered into the streams' API, a stream, an agent's answers, or as a question",
    Stop.REPLY,
    shows="not answered",
)
async def test_a_worker_answers_an_operator_on_an_inbox_or_not_at_all(deployed: Deployment) -> None:
    async with (
        serving(deployed) as policy,
        deployed.wire(Role.OPERATOR, "olga") as rogue,
        deployed.wire(Role.AGENT, "travel") as travel,
    ):
        rogue.subscribe(INBOX)
        travel.subscribe(f"{_HB}.ans.*.travel.c0ffee.*")
        await travel.flush()
        for target in (
            f"{_HB}.ans.policy.travel.c0ffee.1",
            f"{_HB}.ctx.policy.input.travel",
            f"{_HB}.rec.travel.input",
            "$JS.streams.API.STREAM.DELETE.RECORDS",
            "$JS.API.STREAM.DELETE.RECORDS",
            "$SRV.PING",
        ):
            for verb in ("PING", "INFO", "STATS"):
                rogue.publish(f"$SRV.{verb}.policy", b"", reply=target)
        told = await rogue.request("$SRV.STATS.policy", inbox=INBOX)
        # The worker takes requests in their order: nothing else is on its way.
        assert json.loads(told.body)["id"] == policy.worker.id
        for wire in (rogue, travel):
            await wire.flush()
            assert (wire.waiting(), wire.errors) == ([], [])


async def acknowledged(rogue: Wire, subject: str, body: bytes = b"{}") -> None:
    """Publish to a stream as ``travel``, and return when the stream has said so."""
    rogue.subscribe(OWN)
    reply = await rogue.request(subject, body, inbox=OWN)
    assert b'"stream"' in reply.body


@tried(
    "agent",
    "has a stream's acknowledgement delivered as a question of another agent",
    Stop.REPLY,
    shows="dropped, not evaluated",
)
async def test_an_acknowledgement_is_no_question(deployed: Deployment) -> None:
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.publish(f"{_HB}.rec.travel.output", b"{}", reply=f"{_HB}.ctx.policy.input.payroll")
        await until(lambda: policy.count("unanswerable") == 1)
        assert policy.policy.asked == 0


@tried(
    "agent",
    "has a stream's acknowledgement delivered as the answer to another agent's open question",
    Stop.SIGNATURE,
    shows="dropped, `forged`",
)
async def test_an_acknowledgement_is_no_answer(deployed: Deployment) -> None:
    async with (
        deployed.wire(Role.WORKER, "policy") as accomplice,
        deployed.wire(Role.AGENT, "travel") as rogue,
        asking(deployed, "payroll") as payroll,
    ):
        accomplice.subscribe(f"{_HB}.ctx.policy.*.*", "policy")
        await accomplice.flush()
        question = payroll.ask()
        asked = Asked.from_wire(await accomplice.next())
        rogue.publish(f"{_HB}.rec.travel.output", b"{}", reply=asked.reply)
        await payroll.dropped(signature=1)
        assert payroll.give_up(question) == "forged"


@tried(
    "agent and approver",
    "have a stored decision that reads as a verdict delivered as the answer to another agent's question",
    Stop.SIGNATURE,
    shows="dropped, `forged`",
)
@tried(
    "agent and approver",
    "have it delivered as a question, or into a stream",
    Stop.REPLY,
    Stop.ACCOUNT,
    shows="dropped; not stored",
)
async def test_a_stored_decision_is_no_answer_no_question_and_no_record(deployed: Deployment) -> None:
    decision = f"{_HB}.apr.dec.travel.verdict.alice"
    read = f"{API}.DIRECT.GET.APPROVALS.{decision}"
    async with (
        deployed.wire(Role.APPROVER, "alice") as alice,
        deployed.wire(Role.WORKER, "policy") as accomplice,
        deployed.wire(Role.AGENT, "travel") as rogue,
        asking(deployed, "payroll") as payroll,
    ):
        alice.subscribe("_INBOX.approver.alice.1")
        await alice.request(decision, ALLOW, inbox="_INBOX.approver.alice.1")
        accomplice.subscribe(f"{_HB}.ctx.policy.*.*", "policy")
        await accomplice.flush()
        question = payroll.ask()
        asked = Asked.from_wire(await accomplice.next())
        rogue.publish(read, b"", reply=asked.reply)
        await payroll.dropped(signature=1)
        assert payroll.give_up(question) == "forged"
        rogue.publish(read, b"", reply=f"{_HB}.ctx.policy.input.payroll")
        arrived = await accomplice.next()
        # It brings no reply subject, so no worker takes it as a question.
        assert (arrived.body, arrived.reply) == (ALLOW, "")
        for target in (
            f"{_HB}.rec.payroll.aimed",
            f"{_HB}.apr.req.payroll.aimed",
            f"{_HB}.apr.dec.travel.aimed.alice",
        ):
            rogue.publish(read, b"", reply=target)
        # What is acknowledged after them comes after them.
        await acknowledged(rogue, f"{_HB}.rec.travel.output")
        assert rogue.errors == []
    held = await stored(deployed, "RECORDS") | await stored(deployed, "APPROVALS")
    assert decision in held
    assert not any("aimed" in subject for subject in held)


@tried(
    "agent",
    "has the server's 503 delivered among another agent's answers",
    Stop.SERVER,
    shows="comes back to itself",
)
async def test_nobodys_absence_reaches_another_agent(deployed: Deployment) -> None:
    async with (
        deployed.wire(Role.WORKER, "policy") as accomplice,
        deployed.wire(Role.AGENT, "travel") as rogue,
        asking(deployed, "payroll") as payroll,
    ):
        accomplice.subscribe(f"{_HB}.ctx.policy.*.*", "policy")
        await accomplice.flush()
        question = payroll.ask()
        asked = Asked.from_wire(await accomplice.next())
        rogue.subscribe(f"{_HB}.ans.*.travel.c0ffee.*")
        rogue.publish(f"{_HB}.ctx.nobody.input.travel", b"{}", reply=asked.reply)
        reply = await rogue.request(
            f"{_HB}.ctx.nobody.input.travel", b"{}", inbox=f"{_HB}.ans.nobody.travel.c0ffee.1"
        )
        assert reply.headers.startswith(b"NATS/1.0 503")
        await payroll.bus.flush(timeout_s=20)
        assert payroll.bus.dropped_answers == {}
        assert payroll.give_up(question) == "silent"
