"""Asking over one connection after the other: subjects, signatures, bounds, breakers, and the questions in flight.

Nothing here waits. What cannot be asked is settled at once; what is asked is settled by its answer, by the loss of
the connection, or by whoever asked, at the deadline. (Contract, sections 1, 2 and 4.)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hookbus import signing, subjects
from hookbus.breaker import Breaker
from hookbus.context import Outgoing
from hookbus.errors import BusDown
from hookbus.failures import Failure
from hookbus.nats_client import NatsClient, frames_of
from hookbus.questions import Answer, Judge, Question, Questions, question_headers
from hookbus.settings import Settings
from hookbus.signing import Signer

if TYPE_CHECKING:
    from hookbus.remote import RemoteInterceptor


class Asker:
    """Asks the questions of one process. Use it through its :class:`hookbus.Connection`."""

    def __init__(self, settings: Settings, signer: Signer | None) -> None:
        self._settings = settings
        self._signer = signer
        self._client: NatsClient | None = None
        self._max_context_bytes = 0
        #: New and unguessable on every connection.
        self._token = ""
        self._asked = 0
        self._questions = Questions(settings.tenant, self._note_outcome)
        self._breakers: dict[str, Breaker] = {}
        self._answered_last: dict[str, str] = {}
        self._answer_sids: dict[str, int] = {}

    # ---- the connection under it -------------------------------------------------------------------

    def attach(self, client: NatsClient, max_context_bytes: int) -> None:
        """Ask over *client* from now on."""
        self._client = client
        self._max_context_bytes = max_context_bytes
        self._token = secrets.token_hex(8)
        self._answer_sids = {}

    def detach(self) -> None:
        """Settle all that is in flight as ``bus_down``, and deny every question until :meth:`attach`."""
        self._client = None
        self._questions.lose_all()

    def note_violation(self, verb: str, subject: str) -> None:
        """Settle as ``refused`` what the server's refusal to *verb* (``publish``, …) *subject* is about."""
        if verb == "publish":
            return self._questions.refuse(subject)
        for agent in [agent for agent in self._answer_sids if self._answers(agent) == subject]:
            del self._answer_sids[agent]
            self._questions.refuse_answers(subject)

    # ---- what can be seen --------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Questions that nothing has settled yet."""
        return len(self._questions)

    @property
    def dropped_answers(self) -> dict[str, int]:
        """Answers that settled nothing, by cause."""
        return dict(self._questions.dropped)

    @property
    def open_breakers(self) -> frozenset[str]:
        """The interceptors, by token, whose breaker is open."""
        return frozenset(name for name, breaker in self._breakers.items() if breaker.is_open)

    # ---- asking ------------------------------------------------------------------------------------

    def ask(
        self,
        context: Outgoing,
        interceptors: Sequence[tuple[RemoteInterceptor, float]],
        judge: Judge,
        on_settled: Callable[[], None] | None = None,
        *,
        past_breakers: bool = False,
    ) -> list[Question]:
        """Ask each ``(interceptor, budget_s)`` about *context*, all in one write, and return at once.

        Never waits and never raises: a question that cannot be asked is settled when it is returned. The
        asker keeps the deadline and calls :meth:`give_up` on each question at its end. ``judge`` says what a
        body comes to; ``on_settled`` is called, without arguments, for each question settled after this
        returns. ``past_breakers`` asks whatever the breakers say, as ``evaluate_only`` must.
        """
        asked: list[Question] = []
        sent: list[tuple[Question, float]] = []
        for interceptor, budget_s in interceptors:
            subject = subjects.question(self._settings.tenant, interceptor.token, context.point, context.agent)
            question = Question(subject, interceptor.token, judge, on_settled, interceptor.keys)
            asked.append(question)
            refused = self._refusal(interceptor.token, budget_s, len(context.body), len(sent), past_breakers)
            if refused is None:
                sent.append((question, budget_s))
            else:
                question.fail(refused)
        self._send(context, sent)
        return asked

    def repeat(self, question: Question, context: Outgoing, budget_s: float) -> None:
        """Send *question* about *context* a second time, under the same id, if it is still open.

        It goes to the worker of that interceptor that answered last, which is known to be alive; the group
        would hand half of all repeats to the worker of two that has stopped.
        """
        if question.outcome is None:
            self._send(context, [(question, budget_s)], self._answered_last.get(question.interceptor))

    def give_up(self, question: Question) -> None:
        """Expect no answer to *question* any more; if nothing has settled it, silence has."""
        self._questions.give_up(question)

    def _refusal(
        self, interceptor: str, budget_s: float, body_bytes: int, before: int, past_breakers: bool
    ) -> Failure | None:
        """Return why this connection does not even try to ask, after ``before`` others of the call, or None."""
        if self._client is None:
            return Failure.BUS_DOWN
        if body_bytes > self._max_context_bytes:
            return Failure.UNSENDABLE
        if budget_s <= 0:
            return Failure.SILENT
        questions, settings = self._questions, self._settings
        bytes_in_flight = questions.bytes_in_flight + body_bytes * (before + 1)
        if len(questions) + before >= settings.max_in_flight or bytes_in_flight > settings.max_in_flight_bytes:
            return Failure.OPEN
        breaker = self._breakers.get(interceptor)
        if breaker is not None and not past_breakers and not breaker.permits(asyncio.get_running_loop().time()):
            return Failure.BREAKER
        return None

    def _send(
        self, context: Outgoing, questions: Sequence[tuple[Question, float]], worker: str | None = None
    ) -> None:
        client = self._client
        if client is None or not questions:
            return
        frames: list[bytes] = []
        digest = b""
        if self._signer is not None or any(question.keys is not None for question, _ in questions):
            digest = signing.body_digest(context.body)
        for question, budget_s in questions:
            self._asked += 1
            reply = subjects.answer(
                self._settings.tenant, question.interceptor, context.agent, self._token, self._asked
            )
            headers, expires_ms = question_headers(question, budget_s, context.traceparent, context.tracestate)
            self._questions.expect(question, reply, len(context.body))
            if digest:
                headers += self._signed(question, context, reply, expires_ms, digest)
            subject = question.subject if worker is None else f"{question.subject}.{worker}"
            frames += frames_of(subject, reply, f"{headers}\r\n".encode("ascii"), context.body)
        try:
            if context.agent not in self._answer_sids:
                self._answer_sids[context.agent] = self._listen(client, self._answers(context.agent))
            client.write(frames, max_unsent_bytes=self._settings.max_unsent_bytes)
        except BusDown:
            for question, _ in questions:
                self._questions.undo(question)

    def _signed(self, question: Question, context: Outgoing, reply: str, expires_ms: str, digest: bytes) -> str:
        """Note what an answer on *reply* must be for, and return the header lines of the question's signature."""
        covered = signing.question_bytes(
            tenant=self._settings.tenant,
            interceptor=question.interceptor,
            point=context.point,
            agent=context.agent,
            question_id=question.id,
            expires_ms=expires_ms,
            reply=reply,
            digest=digest,
        )
        if question.keys is not None:
            question.digests[question.replies[-1]] = signing.body_digest(covered)
        if self._signer is None:
            return ""
        return f"Hb-Signature: {self._signer.sign(covered)}\r\nHb-Key: {self._signer.key}\r\n"

    def _note_outcome(self, question: Question) -> None:
        """Tell the breaker of what became of a question that was asked, and remember who answered."""
        if isinstance(question.outcome, Answer) and question.outcome.worker is not None:
            self._answered_last[question.interceptor] = question.outcome.worker
        breaker = self._breakers.get(question.interceptor)
        if question.outcome in (Failure.SILENT, Failure.FORGED):
            if breaker is None:
                breaker = self._breakers[question.interceptor] = Breaker(
                    question.interceptor,
                    opens_after=self._settings.breaker_opens_after,
                    trial_interval_s=self._settings.breaker_trial_interval_s,
                )
            breaker.silent()
        elif breaker is not None:
            breaker.heard()

    def _answers(self, agent: str) -> str:
        return subjects.answers(self._settings.tenant, agent, self._token)

    def _listen(self, client: NatsClient, pattern: str) -> int:
        limit = self._settings.max_unsent_bytes
        return client.listen(pattern, "", self._questions.receive, max_unsent_bytes=limit)
