"""One question in, one answer out: the boundary where whatever an interceptor does becomes one outcome.

Everything here runs on the loop, most of it in the connection's read loop, so nothing waits and nothing raises.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hookbus import BodyTooLarge, BusDown, Connection, Message, envelope, signing, subjects
from hookbus_interceptors import intake
from hookbus_interceptors.calling import Call, Calling
from hookbus_interceptors.current import CURRENT, POLICY, CurrentQuestion, header_text
from hookbus_interceptors.intake import Refused
from hookbus_interceptors.service import Tally
from hookbus_interceptors.stalls import Stalls
from hookbus_interceptors.threads import Outcome

logger = logging.getLogger("hookbus.worker")

#: A call that still runs this long after its question expired hangs.
HANGING_AFTER_S: Final = 0.25


class Limits(msgspec.Struct, frozen=True):
    """How much a worker takes on."""

    #: Questions that run at the same time; one more is answered ``429``.
    concurrency: int = 64
    #: The budget of a question that names none.
    default_budget_ms: int = 5000
    #: How far an agent's clock may be behind this one before its questions count as expired.
    skew_ms: int = 0


class _Addressee(NamedTuple):
    """Where an answer goes and which question it is for."""

    reply: str
    #: The question's id; None in a question without one.
    echo: str | None
    #: The digest of what the question's signature covers, where answers are signed.
    digest: bytes | None


class _Running:
    """A question that is being answered."""

    __slots__ = ("addressee", "began_s", "call", "deadline_s", "tally", "timer", "variables")

    call: Call
    timer: asyncio.TimerHandle
    #: What the interceptor's code sees and may set: the question, and the version of the policy that decides it.
    variables: contextvars.Context

    def __init__(self, addressee: _Addressee, tally: Tally, deadline_s: float, began_s: float) -> None:
        self.addressee = addressee
        self.tally = tally
        self.deadline_s = deadline_s
        self.began_s = began_s


class Dispatch:
    """Takes questions, has the interceptor called, and answers, within *limits*.

    ``policy_version()`` is asked whenever a question starts, in the question's own variables.
    ``on_hanging(calls)`` is called when as many calls hang as there are slots.
    """

    def __init__(
        self,
        connection: Connection,
        calling: Calling,
        stalls: Stalls,
        *,
        interceptor: str,
        headers: Mapping[str, str],
        policy_version: Callable[[], object],
        tallies: Mapping[str, Tally],
        limits: Limits,
        repeat_aware: bool,
        on_hanging: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._calling = calling
        self._stalls = stalls
        self._interceptor = interceptor
        self._headers = dict(headers)
        self._policy_version = policy_version
        self._tallies = tallies
        self._limits = limits
        self._on_hanging = on_hanging
        #: None for an interceptor that tells repeats by itself.
        self._repeats = None if repeat_aware else intake.Repeats()
        self._loop = asyncio.get_running_loop()
        self._running: set[_Running] = set()
        self._hanging: set[Call] = set()
        self._cut_short = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def quiet(self) -> None:
        """Return once no question is being answered; each ends by its own deadline."""
        await self._quiet.wait()

    def abandon_all(self) -> None:
        """Answer nothing more: every question, also one that still comes, is left to its agent's deadline."""
        self._cut_short = True
        for running in list(self._running):
            self._abandon(running)

    @property
    def policy_version(self) -> str:
        """The version that a question which starts now is answered by; empty where nobody can say."""
        try:
            return header_text(self._policy_version()) or self._headers.get(envelope.POLICY, "")
        except Exception:  # noqa: BLE001  # whatever it raises, the questions themselves say so
            return ""

    # ---- in ----------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take one question. Never waits and never raises."""
        parts = subjects.parse_question(message.subject)
        if parts is None or self._cut_short:
            return
        tenant, _, point, agent = parts
        tally = self._tallies.get(point) or self._tallies["*"]
        tally.num_requests += 1
        # A reply subject is whatever its sender wrote: answers go to that agent's answers or nowhere.
        if not message.reply.startswith(subjects.answers_of(tenant, self._interceptor, agent)):
            tally.data["unanswerable"] += 1
            return
        addressee = _Addressee(message.reply, None, None)
        try:
            terms = intake.read_terms(message.headers)
            signed = b""
            if self._connection.signer is not None or self._connection.trust is not None:
                signed = intake.covered(terms, parts, message.reply, message.body)
            digest = signing.body_digest(signed) if self._connection.signer is not None else None
            addressee = _Addressee(message.reply, terms.id, digest)
            arrived = self._stalls.earliest_arrival()
            now, now_unix_ms = self._loop.time(), time.time_ns() // 1_000_000
            deadline = intake.deadline(
                terms,
                arrived_s=arrived,
                now_s=now,
                now_unix_ms=now_unix_ms,
                default_ms=self._limits.default_budget_ms,
                skew_ms=self._limits.skew_ms,
            )
            if deadline <= now:
                raise Refused(intake.EXPIRED, "Expired")
            if len(self._running) >= self._limits.concurrency:
                raise Refused(intake.BUSY, "Busy")
            if self._connection.trust is not None:
                intake.check_signature(terms, self._connection.trust.of_agent(agent), signed)
                if self._repeats is not None and terms.id is not None and terms.expires_ms is not None:
                    # Kept by the signed instant: the budget is not signed, so a repeat could name a longer one.
                    kept_s = (terms.expires_ms + self._limits.skew_ms - now_unix_ms) / 1000
                    self._repeats.check(agent, terms.id, expires_s=now + kept_s, now_s=now)
            context = intake.read_context(message.body, tenant, point, agent)
        except Refused as refused:
            self._refuse(addressee, tally, refused)
            return
        number = addressee.echo or os.urandom(16).hex()
        question = CurrentQuestion(number, self._interceptor, point, agent, deadline)
        self._start(_Running(addressee, tally, deadline, now), question, context)

    def _start(self, running: _Running, question: CurrentQuestion, context: dict[str, Any]) -> None:
        running.variables = variables = contextvars.copy_context()
        try:
            variables.run(self._set_out, question)
        except Exception as error:  # noqa: BLE001  # a version that cannot be told is the interceptor's failure
            logger.warning("policy_version raised %s%s", envelope.type_name(error), _place(error))
            return self._refuse(
                running.addressee, running.tally, Refused(intake.RAISED, envelope.type_name(error))
            )
        self._running.add(running)
        self._quiet.clear()
        running.timer = self._loop.call_at(running.deadline_s, self._abandon, running)
        running.call = self._calling.start(context, variables, lambda outcome: self._end(running, outcome))

    def _set_out(self, question: CurrentQuestion) -> None:
        CURRENT.set(question)
        POLICY.set(header_text(self._policy_version()))

    # ---- out ---------------------------------------------------------------------------------------

    def _end(self, running: _Running, outcome: Outcome) -> None:
        if running not in self._running:
            # Abandoned before: its slot is free already, and its agent has stopped waiting.
            self._hanging.discard(running.call)
            return
        if self._loop.time() >= running.deadline_s:
            # It held the loop past its own deadline, so the timer had no chance.
            self._abandon(running)
            return
        self._free(running)
        self._answer(running, outcome)

    def _abandon(self, running: _Running) -> None:
        self._free(running)
        running.tally.data["abandoned"] += 1
        call = running.call
        if not call.ended:
            call.abandon()
            self._loop.call_later(HANGING_AFTER_S, self._look_at, call)

    def _look_at(self, call: Call) -> None:
        if not call.ended:
            self._hanging.add(call)
            if len(self._hanging) >= self._limits.concurrency:
                self._on_hanging(len(self._hanging))

    def _free(self, running: _Running) -> None:
        running.timer.cancel()
        running.tally.processing_time += round((self._loop.time() - running.began_s) * 1e9)
        self._running.discard(running)
        if not self._running:
            self._quiet.set()

    def _answer(self, running: _Running, outcome: Outcome) -> None:
        more = {envelope.ELAPSED_US: str(round((self._loop.time() - running.began_s) * 1e6))}
        version = running.variables.get(POLICY)
        if version is not None:
            more[envelope.POLICY] = version
        if outcome.error is not None:
            name = envelope.type_name(outcome.error)
            logger.warning("the interceptor raised %s%s", name, _place(outcome.error))
            return self._refuse(running.addressee, running.tally, Refused(intake.RAISED, name), more)
        try:
            self._send(running.addressee, outcome.body, more)
        except BodyTooLarge as error:
            logger.warning("an answer of %d bytes exceeds %d", error.size_bytes, error.limit_bytes)
            too_large = Refused(intake.RAISED, "AnswerTooLarge")
            self._refuse(running.addressee, running.tally, too_large, more)
        except BusDown:
            running.tally.data["unsent"] += 1
        else:
            running.tally.data["answered"] += 1

    def _refuse(
        self, addressee: _Addressee, tally: Tally, refused: Refused, more: Mapping[str, str] | None = None
    ) -> None:
        tally.note_error(refused.code, refused.type_name)
        headers = {**(more or {}), envelope.ERROR_CODE: refused.code, envelope.ERROR: refused.type_name}
        if refused.code == intake.BUSY:
            headers[envelope.RETRY_AFTER_MS] = str(max(1, tally.average_processing_time // 1_000_000))
        try:
            self._send(addressee, b"", headers)
        except (BusDown, BodyTooLarge):
            tally.data["unsent"] += 1

    def _send(self, addressee: _Addressee, body: bytes, more: Mapping[str, str]) -> None:
        headers = {**self._headers, **more}
        if addressee.echo is not None:
            headers[envelope.ID] = addressee.echo
        signer = self._connection.signer
        if signer is not None and addressee.digest is not None:
            signed = signing.answer_bytes(
                tenant=self._connection.settings.tenant,
                question_digest=addressee.digest,
                worker=headers.get(envelope.WORKER, ""),
                policy=headers.get(envelope.POLICY, ""),
                digest=signing.body_digest(body),
            )
            headers |= {envelope.SIGNATURE: signer.sign(signed), envelope.KEY: signer.key}
        self._connection.publish(addressee.reply, body, envelope.encode(headers))


def _place(error: BaseException) -> str:
    """Where *error* was raised. Its message is left out: it may quote the payload."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
