"""One rogue agent and everybody else: floods and reused ids

What one agent sends costs others nothing but time, and never a permit. (Contract, C2.6, C2.14, C3.10 and C5.6.)
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from hookbus.authority.roles import Role
from hookbus_interceptors import intake
from tests.authority.deployment import Deployment
from tests.client.scripted import until
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import Forged, Policy, asking, said, serving, signer_of

pytestmark = pytest.mark.anyio


class Waiting(Policy):
    """Answers nobody until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def intercept(self, context: dict[str, Any]) -> dict[str, str]:
        verdict = await super().intercept(context)
        await self.go_on.wait()
        return verdict


@tried(
    "agent", "sends more than the server takes in one message", Stop.PAYLOAD, shows="disconnected; others go on"
)
async def test_a_message_over_the_servers_limit_ends_its_senders_connection_only(deployed: Deployment) -> None:
    async with (
        serving(deployed) as policy,
        asking(deployed, "payroll") as payroll,
        deployed.wire(Role.AGENT, "travel") as rogue,
    ):
        question = Forged.of(None, body=b"x" * 2_000_000)
        rogue.publish(question.subject, question.body, question.headers, question.reply)
        await rogue.closed()
        assert rogue.errors == ["'Maximum Payload Violation'"]
        assert await payroll.settled(payroll.ask()) == "allow"
        assert payroll.bus.reconnects == policy.bus.reconnects == 0
        assert policy.policy.asked == 1


@pytest.mark.parametrize("kind", ["as large as may be", "deep", "not signed"])
@tried(
    "agent",
    "floods a worker with what is large, deep or not signed",
    Stop.SIGNATURE,
    Stop.ORIGIN,
    shows="`400`; others are answered",
)
async def test_a_flood_of_what_is_refused_leaves_others_their_answers(deployed: Deployment, kind: str) -> None:
    # More than the server keeps for a client that does not read (64 MB) would cut the worker off.
    flood = 20 if kind == "as large as may be" else 100
    signer = None if kind == "not signed" else signer_of(deployed, Role.AGENT, "travel")
    body = {
        "as large as may be": b'{"a":"' + b"x" * 900_000 + b'"}',
        "deep": b"[" * 50_000,
        "not signed": b'{"a":1}',
    }[kind]
    async with (
        serving(deployed) as policy,
        asking(deployed, "payroll") as payroll,
        deployed.wire(Role.AGENT, "travel") as rogue,
    ):
        for _ in range(flood):
            question = Forged.of(signer, body=body)
            rogue.publish(question.subject, question.body, question.headers, question.reply)
        assert await payroll.settled(payroll.ask()) == "allow"
        await until(lambda: policy.count("400") == flood, attempts=10_000)
        assert policy.policy.asked == 1


@tried(
    "agent", "asks more than a worker runs at a time", Stop.BOUND, shows="`429` at once, also to others: `busy`"
)
async def test_questions_over_a_workers_bound_are_answered_busy_at_once(deployed: Deployment) -> None:
    waiting = Waiting()
    async with (
        serving(deployed, policy=waiting, concurrency=2) as policy,
        asking(deployed) as rogue,
        asking(deployed, "payroll") as payroll,
    ):
        questions = [rogue.ask() for _ in range(5)]
        await until(lambda: policy.count("429") == 3)
        assert await payroll.settled(payroll.ask()) == "busy"
        waiting.go_on.set()
        outcomes = [await rogue.settled(question) for question in questions]
        assert sorted(outcomes) == ["allow", "allow", "busy", "busy", "busy"]
        # Its slots are free again, and nobody's bound but the worker's was touched.
        assert await payroll.settled(payroll.ask()) == "allow"
        assert payroll.bus.in_flight == 0


@tried("agent", "asks twice under one id, with another context", Stop.REPEAT, shows="`400`, not evaluated")
async def test_an_id_is_taken_once(deployed: Deployment) -> None:
    signer, number = signer_of(deployed, Role.AGENT, "travel"), uuid4().hex
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        for index in range(3):
            reply = f"hb.v1.default.ans.policy.travel.c0ffee.{index}"
            question = Forged.of(signer, id=number, context=said(content=f"number {index}"), reply=reply)
            rogue.publish(question.subject, question.body, question.headers, question.reply)
        await until(lambda: policy.count("400") == 2 and policy.count("answered") == 1)
        assert (policy.last_error, policy.policy.asked) == ("400:Repeated", 1)


@tried(
    "agent",
    "takes the id of another agent's question before it is asked",
    Stop.REPEAT,
    shows="the other is answered",
)
async def test_an_id_that_one_agent_took_is_free_for_another(deployed: Deployment) -> None:
    number = uuid4().hex
    async with (
        serving(deployed) as policy,
        deployed.wire(Role.AGENT, "travel") as rogue,
        deployed.wire(Role.AGENT, "payroll") as payroll,
    ):
        payroll.subscribe("hb.v1.default.ans.*.payroll.c0ffee.*")
        for wire, agent in ((rogue, "travel"), (payroll, "payroll")):
            question = Forged.of(signer_of(deployed, Role.AGENT, agent), agent=agent, id=number)
            wire.publish(question.subject, question.body, question.headers, question.reply)
            await wire.flush()
        assert (await payroll.next()).body == b'{"decision":"allow"}'
        await until(lambda: policy.count("answered") == 2)


@tried(
    "agent",
    "fills a worker's memory of ids with questions that expire in years",
    Stop.REPEAT,
    Stop.BOUND,
    shows="`429` to itself; others are answered",
)
async def test_the_ids_of_one_agent_leave_room_for_those_of_others(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "Repeats", partial(intake.Repeats, most=10))
    signer = signer_of(deployed, Role.AGENT, "travel")
    async with (
        serving(deployed) as policy,
        asking(deployed, "payroll") as payroll,
        deployed.wire(Role.AGENT, "travel") as rogue,
    ):
        for _ in range(15):
            question = Forged.of(signer, lasts_ms=10**13)
            rogue.publish(question.subject, question.body, question.headers, question.reply)
        await until(lambda: policy.count("429") == 5)
        assert await payroll.settled(payroll.ask()) == "allow"
        assert policy.policy.asked == 11
