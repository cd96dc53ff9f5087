"""Questions this process has asked and what became of each: the agent's half of contract sections 2 to 4.

A question is settled exactly once, by the first of: an answer that checks, an error answer, the server's word
that nobody is subscribed or that the subject is refused, the loss of the connection, or its asker giving up at
the deadline. There is no task and no timer here: whoever asks keeps the deadline, with one timer for as many
questions as it asks together.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from hookbus import envelope
from hookbus.errors import HeadersMalformed
from hookbus.failures import BY_ERROR_CODE, Failure

_NOBODY: Final = "503"


class Answer(msgspec.Struct, frozen=True):
    """An answer that checks: the body exactly as it came, and what its headers say of its origin."""

    body: bytes
    worker: str | None = None
    policy: str | None = None


class Question:
    """One question in flight. ``outcome`` is None until it is settled."""

    __slots__ = ("_dropped_one", "_on_settled", "id", "interceptor", "outcome", "reply", "subject")

    def __init__(self, subject: str, reply: str, interceptor: str, on_settled: Callable[[], None] | None) -> None:
        self.subject = subject
        self.reply = reply
        self.interceptor = interceptor
        self.id = os.urandom(16).hex()
        self.outcome: Answer | Failure | None = None
        self._dropped_one = False
        self._on_settled = on_settled

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
    """The questions in flight on one connection, found by their reply subject."""

    def __init__(self, max_in_flight: int) -> None:
        self._max_in_flight = max_in_flight
        self._by_reply: dict[bytes, Question] = {}
        #: Answers dropped, by cause: ``unasked`` (late, double or to nobody's question), ``headers``, ``id``,
        #: ``interceptor``.
        self.dropped: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_reply)

    @property
    def full(self) -> bool:
        """Whether one more question would exceed the bound."""
        return len(self._by_reply) >= self._max_in_flight

    def add(self, question: Question) -> None:
        """Expect an answer to *question*."""
        self._by_reply[question.reply.encode("ascii")] = question

    def give_up(self, question: Question) -> None:
        """Settle *question* as silence if nothing has settled it, and expect no answer any more."""
        self._by_reply.pop(question.reply.encode("ascii"), None)
        question.settle(question.silence)

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
        del self._by_reply[subject]
        if headers.status == _NOBODY and not body:
            question.settle(Failure.ABSENT)
        elif (code := values.get(envelope.ERROR_CODE)) is not None or headers.status is not None:
            question.settle(BY_ERROR_CODE.get(code or "", Failure.RAISED))
        else:
            question.settle(Answer(body, values.get(envelope.WORKER), values.get(envelope.POLICY)))

    def _drop(self, question: Question, cause: str) -> None:
        self.dropped[cause] += 1
        question.drop_one()

    def refuse(self, subject: str) -> None:
        """Settle every question published to *subject* as ``refused``."""
        self._settle_where(lambda question: question.subject == subject, Failure.REFUSED)

    def refuse_answers(self, pattern: str) -> None:
        """Settle every question whose answer *pattern*, a refused subscription, would have brought."""
        prefix, _, rest = pattern.partition("*")
        rest = rest.removesuffix("*")
        self._settle_where(lambda q: q.reply.startswith(prefix) and rest in q.reply, Failure.REFUSED)

    def lose_all(self) -> None:
        """Settle every question as ``bus_down``: the connection their answers would come on is gone."""
        self._settle_where(lambda _question: True, Failure.BUS_DOWN)

    def _settle_where(self, matches: Callable[[Question], bool], failure: Failure) -> None:
        for reply, question in [pair for pair in self._by_reply.items() if matches(pair[1])]:
            del self._by_reply[reply]
            question.settle(failure)


def question_headers(
    question: Question, budget_s: float, traceparent: str | None, tracestate: str | None
) -> bytes:
    """Return the header bytes of *question*, whose asker waits ``budget_s`` seconds more (section 2)."""
    budget_ms = int(budget_s * 1000)
    expires_ms = time.time_ns() // 1_000_000 + budget_ms
    trace = f"traceparent: {traceparent}\r\n" if traceparent else ""
    if tracestate:
        trace += f"tracestate: {tracestate}\r\n"
    return (
        f"NATS/1.0\r\nHb-Contract: 1\r\nHb-Id: {question.id}\r\nHb-Budget-Ms: {budget_ms}\r\n"
        f"Hb-Expires-Ms: {expires_ms}\r\n{trace}\r\n"
    ).encode("ascii")
