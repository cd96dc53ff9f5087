"""What one interceptor's answer comes to for the action, as a host would have it, and how two of them differ."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Final

import msgspec
from agent_hooks import HostError

from hookbus import Failure, codec
from hookbus.codec import Json
from hookbus_interceptors.gate import gated

_TOKEN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/+-]{0,127}")
UNTOLD: Final = "(not a token)"


class Change(StrEnum):
    """How the candidate's outcome differs from the current one."""

    TO_DENY = "allow to deny"
    TO_ALLOW = "deny to allow"
    #: Both permit, and something else goes on: another rewriting, other labels.
    PERMITTED_OTHERWISE = "permitted otherwise"
    #: Both deny, for another reason, or only one of them may be lifted by a person.
    DENIED_OTHERWISE = "denied otherwise"
    #: One of them could not be heard, so there is nothing to compare.
    UNANSWERED = "unanswered"

    @property
    def is_flip(self) -> bool:
        """Whether another action would have gone on."""
        return self in (Change.TO_DENY, Change.TO_ALLOW, Change.PERMITTED_OTHERWISE)


class Outcome(msgspec.Struct, frozen=True):
    """What becomes of the action. ``goes_on`` is payload, for comparison alone."""

    #: ``allow``, ``transform``, ``deny``, ``escalate``; the class of the failure where nobody was heard.
    decision: str
    permits: bool
    reason: str | None = None
    answered: bool = True
    goes_on: Json = None

    @property
    def absent(self) -> bool:
        """Whether no worker serves the point."""
        return self.decision == Failure.ABSENT.label

    def without_payload(self) -> Outcome:
        """Return the same, fit to be kept and reported."""
        return msgspec.structs.replace(self, goes_on=None)

    def shown(self) -> str:
        """Return decision and reason, fit to be printed."""
        return self.decision if self.reason is None else f"{self.decision} {self.reason}"


def told(name: Json) -> str:
    """Return *name* where it is a plain token: anything else might quote a payload."""
    return name if isinstance(name, str) and _TOKEN.fullmatch(name) else UNTOLD


def of_body(body: bytes, context: dict[str, Json]) -> Outcome:
    """Return what the answer *body* to *context* comes to; never raises. (AGENT-HOOKS-0.1 §5.)"""
    verdict, target = gated(body, context)
    decision = "escalate" if verdict.is_liftable else verdict.decision.value
    reason = None if verdict.reason is None else told(verdict.reason)
    if not verdict.decision.permits:
        return Outcome(decision, False, reason)
    return Outcome(decision, True, reason, goes_on=[target, sorted(verdict.result_labels)])


def of_failure(failure: Failure) -> Outcome:
    """Return what *failure* comes to: a deny where it was the interceptor's own, else nothing to compare."""
    if failure is Failure.RAISED:
        return _denied(failure.reason)
    return Outcome(failure.label, False, failure.reason, answered=False)


def change(current: Outcome, candidate: Outcome) -> Change | None:
    """Return how *candidate* differs from *current*; None where it does not, or neither serves the point."""
    if current.absent and candidate.absent:
        return None
    if not (current.answered and candidate.answered):
        return Change.UNANSWERED
    if current.permits != candidate.permits:
        return Change.TO_ALLOW if candidate.permits else Change.TO_DENY
    if current.permits:
        return None if _same(current.goes_on, candidate.goes_on) else Change.PERMITTED_OTHERWISE
    same = (current.decision, current.reason) == (candidate.decision, candidate.reason)
    return None if same else Change.DENIED_OTHERWISE


def _same(one: Any, other: Any) -> bool:
    # As bytes: to Python 1, 1.0 and true are equal.
    return codec.encode_sorted(one) == codec.encode_sorted(other)


def _denied(reason: str) -> Outcome:
    return Outcome("deny", False, str(HostError(reason).value))
