"""Questions this process has asked and what became of each: the agent's half of contract sections 2 to 4.

A question is settled exactly once, by the first of: an answer that checks, an error answer, the server's word
that nobody is subscribed or that the subject is refused, the loss of the connection, or its asker giving up at
the deadline. While a second attempt is out, only an answer that is a verdict settles it before both have ended.
There is no task and no timer here: whoever asks keeps the deadline, with one timer for as many questions as it
asks together.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from hookbus import envelope, signing
from hookbus.errors import HeadersMalformed
from hookbus.failures import BY_ERROR_CODE, Failure
from hookbus.subjects import is_token

_NOBODY: Final = "503"


class Judgement(NamedTuple):
    """What a body comes to, and whether that is a verdict."""

    verdict: Any
    valid: bool


#: Says what a body comes to; never raises.
Judge = Callable[[bytes], Judgement]


class Answer(msgspec.Struct, frozen=True):
    """An answer that checks: its judgement, and what its headers say of its origin."""

    judgement: Judgement
    #: The token of the worker that answered, if it told one.
    worker: str | None = None
    policy: str | None = None


class Question:
    """One question in flight. ``outcome`` is None until it is settled."""

    __slots__ = (
        "_dropped_one",
        "_judge",
        "_on_settled",
        "_out",
        "digests",
        "id",
        "interceptor",
        "keys",
        "outcome",
        "replies",
        "subject",
    )

    def __init__(
        self,
        subject: str,
        interceptor: str,
        judge: Judge,
        on_settled: Callable[[], None] | None,
        keys: frozenset[str] | None = None,
    ) -> None:
        self.subject = subject
        self.interceptor = interceptor
        #: The same for every attempt, so that a stateful interceptor can tell a repeat.
        self.id = os.urandom(16).hex()
        self.outcome: Answer | Failure | None = None
        #: The public keys one of which must have signed an answer; None where none is demanded.
        self.keys = keys
        #: The reply subject of each attempt.
        self.replies: list[bytes] = []
        #: For each attempt whose answer must be signed, the digest of what its question's signature covers.
        self.digests: dict[bytes, bytes] = {}
        self._out = 0
        self._judge = judge
        self._dropped_one = False
        self._on_settled = on_settled

    def attempt(self, reply: str) -> None:
        """Note one more attempt, to be answered on *reply*."""
        self.replies.append(reply.encode("ascii"))
        self._out += 1

    def undo_attempt(self) -> bytes:
        """Forget the last attempt and return its reply subject."""
        self._out -= 1
        return self.replies.pop()

    def end_attempt(self, outcome: Answer | Failure) -> None:
        """Settle with *outcome* if it is a verdict or ends the last attempt that was out."""
        self._out -= 1
        if self._out <= 0 or (isinstance(outcome, Answer) and outcome.judgement.valid):
            self.settle(outcome)

    def judge(self, body: bytes) -> Judgement:
        """Return what *body* comes to."""
        return self._judge(body)

    def settle(self, outcome: Answer | Failure) -> None:
        """Give the question its outcome; a second one changes nothing."""
        if self.outcome is None:
            self.outcome = outcome
            if self._on_settled is not None:
                self._on_settled()

    def fail(self, failure: Failure) -> None:
        """Settle a question that was never asked; its asker sees it at once, so nobody is called."""
        if self.outcome is None:
            self.outcome = failure

    def drop_one(self) -> None:
        """Note that an answer to this question did not check."""
        self._dropped_one = True

    @property
    def silence(self) -> Failure:
        """What silence means for this question: ``forged`` if an answer was dropped, else ``silent``."""
        return Failure.FORGED if self._dropped_one else Failure.SILENT


class Questions:
    """The questions in flight on one connection, found by their reply subjects.

    ``on_outcome(question)`` is told of each question that was asked and is now settled.
    """

    def __init__(self, tenant: str, on_outcome: Callable[[Question], None]) -> None:
        self._tenant = tenant
        self._on_outcome = on_outcome
        self._by_reply: dict[bytes, Question] = {}
        self._bodies: dict[Question, int] = {}
        #: Bytes of the bodies in flight, each counted once per question.
        self.bytes_in_flight = 0
        #: Answers dropped, by cause: ``unasked`` (late, double or to nobody's question), ``headers``, ``id``,
        #: ``interceptor``, ``signature``.
        self.dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._bodies)

    def expect(self, question: Question, reply: str, body_bytes: int) -> None:
        """Expect an answer to *question* on *reply*, its first or one more attempt."""
        question.attempt(reply)
        self._by_reply[question.replies[-1]] = question
        if question not in self._bodies:
            self._bodies[question] = body_bytes
            self.bytes_in_flight += body_bytes

    def undo(self, question: Question) -> None:
        """Take back the last attempt, which could not be sent; without any other the question has failed."""
        self._by_reply.pop(question.undo_attempt(), None)
        if not question.replies:
            self.bytes_in_flight -= self._bodies.pop(question, 0)
            question.fail(Failure.BUS_DOWN)

    def give_up(self, question: Question) -> None:
        """Settle *question* as silence if nothing has settled it, and expect no answer any more."""
        self._close(question, question.silence)

    def receive(self, subject: bytes, _reply: bytes, raw_headers: bytes, body: bytes) -> None:
        """Take one message from the answers' subscription. Never raises."""
        question = self._by_reply.get(subject)
        if question is None:
            self.dropped["unasked"] += 1
            return
        try:
            headers = envelope.parse(raw_headers)
        except HeadersMalformed:
            return self._drop(question, "headers")
        values = headers.values
        if values.get(envelope.ID, question.id) != question.id:
            return self._drop(question, "id")
        if values.get(envelope.INTERCEPTOR, question.interceptor) != question.interceptor:
            return self._drop(question, "interceptor")
        from_server = headers.status == _NOBODY and not body
        if question.keys is not None and not from_server and not self._is_signed(question, subject, values, body):
            return self._drop(question, "signature")
        del self._by_reply[subject]
        question.end_attempt(_outcome(question, headers, body))
        if question.outcome is not None:
            self._close(question, question.outcome)

    def _is_signed(self, question: Question, reply: bytes, values: dict[str, str], body: bytes) -> bool:
        key = values.get(envelope.KEY, "")
        if question.keys is None or key not in question.keys or reply not in question.digests:
            return False
        covered = signing.answer_bytes(
            tenant=self._tenant,
            question_digest=question.digests[reply],
            worker=values.get(envelope.WORKER, ""),
            policy=values.get(envelope.POLICY, ""),
            digest=signing.body_digest(body),
        )
        return signing.verifies(key, values.get(envelope.SIGNATURE, ""), covered)

    def _drop(self, question: Question, cause: str) -> None:
        self.dropped[cause] += 1
        question.drop_one()

    def refuse(self, subject: str) -> None:
        """Settle every question published to *subject* as ``refused``."""
        self._close_where(lambda question: question.subject == subject, Failure.REFUSED)

    def refuse_answers(self, pattern: str) -> None:
        """Settle every question whose answers *pattern*, a refused subscription, would have brought."""
        prefix, _, rest = (part.encode("ascii", "replace") for part in pattern.partition("*"))
        within = rest.removesuffix(b"*")
        self._close_where(lambda q: q.replies[0].startswith(prefix) and within in q.replies[0], Failure.REFUSED)

    def lose_all(self) -> None:
        """Settle every question as ``bus_down``: the connection their answers would come on is gone."""
        self._close_where(lambda _question: True, Failure.BUS_DOWN)

    def _close_where(self, matches: Callable[[Question], bool], failure: Failure) -> None:
        for question in [question for question in self._bodies if matches(question)]:
            self._close(question, failure)

    def _close(self, question: Question, outcome: Answer | Failure) -> None:
        body_bytes = self._bodies.pop(question, None)
        if body_bytes is None:
            return
        self.bytes_in_flight -= body_bytes
        for reply in question.replies:
            self._by_reply.pop(reply, None)
        question.settle(outcome)
        self._on_outcome(question)


def _outcome(question: Question, headers: envelope.Headers, body: bytes) -> Answer | Failure:
    values = headers.values
    if headers.status == _NOBODY and not body:
        return Failure.ABSENT
    code = values.get(envelope.ERROR_CODE)
    if code is not None or headers.status is not None:
        return BY_ERROR_CODE.get(code or "", Failure.RAISED)
    worker = values.get(envelope.WORKER)
    if worker is not None and not is_token(worker):
        worker = None
    return Answer(question.judge(body), worker, values.get(envelope.POLICY))


def question_headers(
    question: Question, budget_s: float, traceparent: str | None, tracestate: str | None
) -> tuple[str, str]:
    """Return the header lines of *question* and its ``Hb-Expires-Ms`` (section 2).

    Its asker waits ``budget_s`` seconds more. The block still lacks its closing empty line.
    """
    budget_ms = int(budget_s * 1000)
    expires_ms = str(time.time_ns() // 1_000_000 + budget_ms)
    trace = f"traceparent: {traceparent}\r\n" if traceparent else ""
    if tracestate:
        trace += f"tracestate: {tracestate}\r\n"
    lines = (
        f"NATS/1.0\r\nHb-Contract: 1\r\nHb-Id: {question.id}\r\nHb-Budget-Ms: {budget_ms}\r\n"
        f"Hb-Expires-Ms: {expires_ms}\r\n{trace}"
    )
    return lines, expires_ms
