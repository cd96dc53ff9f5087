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
#: Which version of the policy decides it; None where nobody says.
POLICY: Final = contextvars.ContextVar[str | None]("hookbus_policy", default=None)


def question() -> CurrentQuestion:
    """Return the question that the calling interceptor is answering, in a coroutine and in a thread alike.

    Raises :class:`NotAsked` outside a question.
    """
    current = CURRENT.get(None)
    if current is None:
        raise NotAsked
    return current


def decided_by(policy_version: str) -> None:
    """Say which version of the policy decides the question that the caller is answering, for ``Hb-Policy``.

    It wins over the interceptor's ``policy_version``. Raises :class:`NotAsked` outside a question.
    """
    question()
    POLICY.set(header_text(policy_version))


def header_text(policy_version: object) -> str | None:
    """Return *policy_version* if it is None or can stand in a header as it is; raise ValueError otherwise."""
    if policy_version is None or (
        isinstance(policy_version, str)
        and policy_version.isprintable()
        and policy_version.strip() == policy_version
    ):
        return policy_version
    raise ValueError("a policy version is one line of printable text without blanks around it")
