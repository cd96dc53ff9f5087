"""A rogue worker: answering

It holds its own interceptor's key and hears its questions; the agent checks every answer against the question that
it has open. (Contract, C3.4, C3.12 and C5.4.)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from hookbus import envelope
from hookbus.authority.roles import Role
from hookbus.questions import Question
from hookbus.signing import Signer
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import ALLOW, Asked, Asking, asking, signer_of

pytestmark = pytest.mark.anyio

DENY = b'{"decision":"deny"}'


class Rogue(NamedTuple):
    """A worker that writes its answers by hand."""

    wire: Wire
    signer: Signer

    async def taken(self) -> Asked:
        """Return the next question."""
        return Asked.from_wire(await self.wire.next())

    async def says(self, asked: Asked, body: bytes = ALLOW, *, reply: str | None = None, **changes: str) -> None:
        """Answer *asked* rightly but for what is given."""
        self.wire.publish(reply or asked.reply, body, asked.answered(self.signer, body, **changes))
        await self.wire.flush()


@asynccontextmanager
async def rogue_worker(deployed: Deployment, name: str = "policy") -> AsyncIterator[Rogue]:
    async with deployed.wire(Role.WORKER, name) as wire:
        wire.subscribe(f"hb.v1.default.ctx.{name}.*.*", name)
        await wire.flush()
        yield Rogue(wire, signer_of(deployed, Role.WORKER, name))


async def opened(agent: Asking, rogue: Rogue) -> tuple[Question, Asked]:
    """Have *agent* ask and *rogue* take the question."""
    question = agent.ask()
    return question, await rogue.taken()


async def test_an_answer_by_hand_that_is_right_counts(deployed: Deployment) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        await rogue.says(asked)
        assert await agent.settled(question) == "allow"


@tried("worker", "answers for another interceptor", Stop.PERMISSION, shows="refused")
async def test_a_worker_does_not_answer_for_another_interceptor(deployed: Deployment) -> None:
    async with (
        rogue_worker(deployed) as policy,
        rogue_worker(deployed, "redactor") as rogue,
        asking(deployed) as agent,
    ):
        question, asked = await opened(agent, policy)
        await rogue.says(asked)
        assert rogue.wire.errors == [f"'Permissions Violation for Publish to \"{asked.reply}\"'"]
        await policy.says(asked, DENY)
        assert await agent.settled(question) == "deny"
        assert agent.bus.dropped_answers == {}


@tried(
    "worker", "answers in another interceptor's name, on its own subject", Stop.ANSWER, shows="dropped, `forged`"
)
async def test_an_answer_in_another_interceptors_name_is_dropped(deployed: Deployment) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        await rogue.says(asked, Hb_Interceptor="redactor")
        await agent.dropped(interceptor=1)
        assert agent.give_up(question) == "forged"


@tried("worker", "answers a question that was not asked, or not yet", Stop.ANSWER, shows="dropped")
async def test_an_answer_that_nobody_asked_for_settles_nothing(deployed: Deployment) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        await rogue.says(asked, DENY)
        assert await agent.settled(question) == "deny"
        connection, _, number = asked.reply.rpartition(".")
        await rogue.says(asked, reply=f"{connection}.{int(number) + 1}")
        await agent.dropped(unasked=1)
        question, asked = await opened(agent, rogue)
        assert asked.reply == f"{connection}.{int(number) + 1}"
        await rogue.says(asked, DENY)
        assert await agent.settled(question) == "deny"


@pytest.mark.parametrize(("first", "then"), [(DENY, ALLOW), (b'{"decision":"certainly"}', ALLOW)])
@tried("worker", "answers twice: a deny or rubbish, then an allow", Stop.SETTLED, shows="dropped")
async def test_the_first_answer_settles_a_question(deployed: Deployment, first: bytes, then: bytes) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        await rogue.says(asked, first)
        await rogue.says(asked, then)
        await agent.dropped(unasked=1)
        assert agent.give_up(question) != "allow"


@tried("worker", "answers late", Stop.SETTLED, shows="dropped, `silent`")
async def test_a_late_answer_changes_nothing(deployed: Deployment) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        assert agent.give_up(question) == "silent"
        await rogue.says(asked)
        await agent.dropped(unasked=1)
        assert agent.give_up(question) == "silent"


@tried("worker", "gives one agent the answer to another agent's question", Stop.ID, shows="dropped, `forged`")
@tried("worker", "the same, with the id put right or left out", Stop.SIGNATURE, shows="dropped, `forged`")
async def test_an_answer_to_one_agent_is_none_to_another(deployed: Deployment) -> None:
    async with (
        rogue_worker(deployed) as rogue,
        asking(deployed) as travel,
        asking(deployed, "payroll") as payroll,
    ):
        _, asked_by_travel = await opened(travel, rogue)
        question, asked = await opened(payroll, rogue)
        await rogue.says(asked_by_travel, reply=asked.reply)
        await payroll.dropped(id=1)
        right_id = envelope.parse(asked.headers).values[envelope.ID]
        await rogue.says(asked_by_travel, reply=asked.reply, Hb_Id=right_id)
        await payroll.dropped(id=1, signature=1)
        values = envelope.parse(asked_by_travel.answered(rogue.signer)).values
        del values[envelope.ID]
        rogue.wire.publish(asked.reply, ALLOW, envelope.encode(values))
        await payroll.dropped(id=1, signature=2)
        assert payroll.give_up(question) == "forged"


@tried("worker", "gives a new question the answer to an earlier one", Stop.ID, shows="dropped, `forged`")
@tried("worker", "the same, with the id put right", Stop.SIGNATURE, shows="dropped, `forged`")
async def test_an_answer_is_good_for_one_question(deployed: Deployment) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, earlier = await opened(agent, rogue)
        await rogue.says(earlier)
        assert await agent.settled(question) == "allow"
        question, asked = await opened(agent, rogue)
        await rogue.says(earlier, reply=asked.reply)
        await agent.dropped(id=1)
        await rogue.says(earlier, reply=asked.reply, Hb_Id=envelope.parse(asked.headers).values[envelope.ID])
        await agent.dropped(id=1, signature=1)
        assert agent.give_up(question) == "forged"


@pytest.mark.parametrize("whose", ["redactor", "payroll", "nobody's"])
@tried(
    "worker",
    "answers without its signature, or by a key that is not its interceptor's",
    Stop.SIGNATURE,
    shows="dropped, `forged`",
)
async def test_an_answer_counts_with_a_key_of_its_own_interceptor_only(deployed: Deployment, whose: str) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        if whose == "nobody's":
            rogue.wire.publish(asked.reply, ALLOW)
        else:
            role = {"redactor": Role.WORKER, "payroll": Role.AGENT}[whose]
            await rogue._replace(signer=signer_of(deployed, role, whose)).says(asked)
        await agent.dropped(signature=1)
        assert agent.give_up(question) == "forged"


@pytest.mark.parametrize(
    "headers",
    [b"NATS/1.0\r\nHb-Id: x\r\nHb-Id: y\r\n\r\n", b"NATS/1.0\r\nrubbish\r\n\r\n", b"NATS/1.0 \xff\r\n\r\n"],
)
@tried(
    "worker",
    "answers with headers that are none, to confuse what reads them",
    Stop.ANSWER,
    shows="dropped, `forged`",
)
async def test_malformed_headers_harm_neither_the_question_nor_the_connection(
    deployed: Deployment, headers: bytes
) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        rogue.wire.publish(asked.reply, ALLOW, headers)
        await agent.dropped(headers=1)
        assert question.outcome is None
        await rogue.says(asked, DENY)
        assert await agent.settled(question) == "deny"


@pytest.mark.parametrize(
    ("headers", "body", "comes_to"),
    [
        (b"NATS/1.0 503\r\n\r\n", b"", "absent"),
        (None, b'{"decision":"deny","decision":"allow"}', "malformed"),
        (None, b"\xef\xbb\xbf" + ALLOW, "malformed"),
        (None, ALLOW + ALLOW, "malformed"),
    ],
)
@tried(
    "worker",
    "poses as the server's 503, or answers a verdict that can be read in two ways",
    Stop.DENIES,
    shows="`absent`, `malformed`",
)
async def test_what_is_not_one_plain_verdict_denies(
    deployed: Deployment, headers: bytes | None, body: bytes, comes_to: str
) -> None:
    async with rogue_worker(deployed) as rogue, asking(deployed) as agent:
        question, asked = await opened(agent, rogue)
        rogue.wire.publish(asked.reply, body, headers or asked.answered(rogue.signer, body))
        assert await agent.settled(question) == comes_to
