"""The honest sides of a test, and rogues that write every byte of a question or an answer themselves."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self
from uuid import uuid4

from agent_hooks import AgentContextBuilder

import hookbus
from hookbus import codec, envelope, signing, subjects
from hookbus.authority.roles import Role
from hookbus.context import outgoing, prepare
from hookbus.failures import Failure
from hookbus.questions import Answer, Judgement, Question
from hookbus.signing import Signer
from hookbus_interceptors import Worker
from tests.authority.deployment import Deployment
from tests.client.scripted import until
from tests.contract.raw_nats import RawMessage

#: Long enough that only a hang reaches it: what a test gives up it gives up itself.
PATIENCE_S = 30.0
ALLOW = b'{"decision":"allow"}'


def said(agent: str = "travel", content: str = "book", **more: Any) -> dict[str, Any]:
    """Return the context of something that was said to *agent*."""
    made = AgentContextBuilder(agent_id=agent, framework="tests", session_id="s").input(content=content)
    return {**made, **more}


def signer_of(deployment: Deployment, role: Role, name: str, tenant: str = "default") -> Signer:
    """Return what signs as *name*."""
    return Signer.from_file(deployment.layout.seed(tenant, role, name))


# ---- the honest sides ------------------------------------------------------------------------------


class Policy:
    """An interceptor that decides what it is told to and counts how often it was asked."""

    def __init__(self, decision: str = "allow") -> None:
        self.decision = decision
        self.asked = 0

    async def intercept(self, context: dict[str, Any]) -> dict[str, str]:
        del context
        self.asked += 1
        if self.decision == "raise":
            raise RuntimeError
        return {"decision": self.decision}


class Serving(NamedTuple):
    """A worker, what it decides, and its place on the bus."""

    worker: Worker
    policy: Policy
    bus: hookbus.Connection

    def count(self, what: str) -> int:
        """Return how many questions came to *what*: an error code, ``unanswerable``, …"""
        return sum(tally.data[what] for tally in self.worker.tallies)

    @property
    def last_error(self) -> str:
        """The error answer given last."""
        (tally,) = self.worker.tallies
        return tally.last_error


@asynccontextmanager
async def serving(
    deployment: Deployment,
    name: str = "policy",
    *,
    policy: Policy | None = None,
    url: str | None = None,
    concurrency: int = 64,
    **settings: Any,
) -> AsyncIterator[Serving]:
    """Serve interceptor *name* with the generated settings."""
    policy = policy or Policy()
    settings = {"config": deployment.settings(Role.WORKER, name), **settings}
    async with (
        hookbus.connect(url, **settings) as bus,
        Worker(bus, policy, name=name, concurrency=concurrency) as worker,
    ):
        yield Serving(worker, policy, bus)


def _judge(body: bytes) -> Judgement:
    try:
        return Judgement(codec.parse_strictly(body), True)
    except hookbus.Undecodable:
        return Judgement(None, False)


class Asking:
    """An honest agent, one question at a time or several, each held open until the test knows its end."""

    def __init__(self, bus: hookbus.Connection, agent: str = "travel") -> None:
        self.bus = bus
        self._agent = agent

    def ask(self, content: str = "book", *, interceptor: str = "policy", budget_s: float = PATIENCE_S) -> Question:
        """Ask *interceptor* and return the question, which nothing has settled yet."""
        context = said(self._agent, content)
        sent = outgoing(prepare(context))
        return self.bus.asker.ask(sent, [(self.bus.interceptor(interceptor), budget_s)], _judge)[0]

    async def settled(self, question: Question) -> str:
        """Wait until something settles *question* and return what: a class of failure, or a decision."""
        await until(lambda: question.outcome is not None)
        return self.give_up(question)

    async def dropped(self, **causes: int) -> None:
        """Wait until exactly so many answers were dropped, by cause, since this agent connected."""
        await until(lambda: self.bus.dropped_answers == causes)

    def give_up(self, question: Question) -> str:
        """Return what *question* has come to at its deadline, which is now."""
        self.bus.asker.give_up(question)
        outcome = question.outcome
        if isinstance(outcome, Answer):
            return str(outcome.judgement.verdict["decision"]) if outcome.judgement.valid else "malformed"
        assert isinstance(outcome, Failure)
        return outcome.label


@asynccontextmanager
async def asking(
    deployment: Deployment, agent: str = "travel", url: str | None = None, **settings: Any
) -> AsyncIterator[Asking]:
    """Be *agent* with the generated settings."""
    async with hookbus.connect(url, config=deployment.settings(Role.AGENT, agent), **settings) as bus:
        yield Asking(bus, agent)


# ---- rogues ----------------------------------------------------------------------------------------


class Forged(NamedTuple):
    """A question that a rogue has made, signed or not."""

    subject: str
    body: bytes
    headers: bytes
    reply: str

    @classmethod
    def of(
        cls,
        signer: Signer | None,
        *,
        tenant: str = "default",
        interceptor: str = "policy",
        agent: str = "travel",
        context: dict[str, Any] | None = None,
        body: bytes | None = None,
        reply: str | None = None,
        id: str | None = None,
        contract: str = "1",
        lasts_ms: int = 30_000,
    ) -> Self:
        """Return a question about *context*, signed by *signer* as it stands, and right but for what is given."""
        body = body or json.dumps(context or said(agent)).encode()
        reply = reply or subjects.answer(tenant, interceptor, agent, "c0ffee", 1)
        id, expires_ms = id or uuid4().hex, str(time.time_ns() // 1_000_000 + lasts_ms)
        headers = {
            envelope.CONTRACT: contract,
            envelope.ID: id,
            envelope.BUDGET_MS: "30000",
            envelope.EXPIRES_MS: expires_ms,
        }
        if signer is not None:
            covered = signing.question_bytes(
                tenant=tenant,
                interceptor=interceptor,
                point="input",
                agent=agent,
                question_id=id,
                expires_ms=expires_ms,
                reply=reply,
                digest=signing.body_digest(body),
            )
            headers |= {envelope.SIGNATURE: signer.sign(covered), envelope.KEY: signer.key}
        return cls(subjects.question(tenant, interceptor, "input", agent), body, envelope.encode(headers), reply)


class Asked(NamedTuple):
    """A question as a worker, or the server, sees it."""

    subject: str
    reply: str
    headers: bytes
    body: bytes

    @classmethod
    def from_wire(cls, message: RawMessage) -> Self:
        return cls(*message)

    @property
    def covered(self) -> bytes:
        """What a signature of the question covers."""
        values = envelope.parse(self.headers).values
        parts = subjects.parse_question(self.subject)
        assert parts is not None
        tenant, interceptor, point, agent = parts
        return signing.question_bytes(
            tenant=tenant,
            interceptor=interceptor,
            point=point,
            agent=agent,
            question_id=values[envelope.ID],
            expires_ms=values[envelope.EXPIRES_MS],
            reply=self.reply,
            digest=signing.body_digest(self.body),
        )

    def answered(self, signer: Signer, body: bytes = ALLOW, **changes: str) -> bytes:
        """Return the headers of an answer with *body* by *signer*, right in everything but *changes*."""
        covered = signing.answer_bytes(
            tenant="default",
            question_digest=signing.body_digest(self.covered),
            worker="rogue",
            policy="",
            digest=signing.body_digest(body),
        )
        values = {
            envelope.ID: envelope.parse(self.headers).values[envelope.ID],
            envelope.INTERCEPTOR: self.subject.split(".")[4],
            envelope.WORKER: "rogue",
            envelope.SIGNATURE: signer.sign(covered),
            envelope.KEY: signer.key,
        }
        return envelope.encode(values | {name.replace("_", "-"): value for name, value in changes.items()})
