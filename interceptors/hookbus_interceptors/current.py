"""The question that is being answered right now, for the interceptors that care."""

from __future__ import annotations

import contextvars
import time
from typing import Final

import msgspec

from hookbus_interceptors.errors import NotAsked


class CurrentQuestion(msgspec.Struct, frozen=True):
    """What a worker knows of one question beside its context (contract, section 2)."""

    #: ``Hb-Id``, the same for a hedge that repeats the question; made here for a question that brought none.
    id: str
    #: The interceptor that was asked, as its subject token.
    interceptor: str
    #: The interception point of the subject.
    point: str
    #: The agent that asks, as its subject token.
    agent: str
    #: When the answer stops mattering, in seconds of ``time.monotonic()``.
    deadline_s: float

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline_s - time.monotonic()


CURRENT: Final = contextvars.ContextVar[CurrentQuestion]("hookbus_question")


def question() -> CurrentQuestion:
    """Return the question that the calling interceptor is answering, in a coroutine and in a thread alike.

    Raises :class:`NotAsked` outside a question.
    """
    current = CURRENT.get(None)
    if current is None:
        raise NotAsked
    return current
