"""How two answers to one question compare, in words that hold nothing of the question."""

from __future__ import annotations

import asyncio
import re
from typing import Final, Literal, NamedTuple

import msgspec
from agent_hooks import Decision, Verdict

from hookbus.codec import Json
from hookbus.envelope import type_name

#: A reason is a token to search for (§5); what is none may quote the payload and is not kept.
_TOKEN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")
NO_TOKEN: Final = "(no token)"

RAISED: Final = "raised"
TIMED_OUT: Final = "timed_out"
INVALID: Final = "invalid"
#: Each denies where the one it happens to decides.
FAILURES: Final = frozenset({RAISED, TIMED_OUT, INVALID})

Difference = Literal["decision", "reason", "transform", "labels"]


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one answer."""

    #: ``allow``, ``transform``, ``deny``, ``escalate`` (a deny that a person may lift), or one of ``FAILURES``.
    decision: str
    #: The verdict's reason where it is a token; the type of what was raised.
    reason: str | None = None


class Ending(NamedTuple):
    """What became of one question at one of the two; ``verdict`` is None where it failed."""

    decision: str
    reason: str | None = None
    verdict: Verdict | None = None

    @property
    def said(self) -> Said:
        """What may be kept of it."""
        kept = self.reason is None or _TOKEN.fullmatch(self.reason)
        return Said(self.decision, self.reason if kept else NO_TOKEN)


def answered(answer: Json | Verdict) -> Ending:
    """Return what *answer* is: a verdict of §5, or ``invalid``. Never raises."""
    try:
        verdict = answer if isinstance(answer, Verdict) else Verdict.from_wire(answer)
    except (TypeError, ValueError):
        return Ending(INVALID)
    lifts = verdict.decision is Decision.DENY and verdict.approval is not None
    return Ending("escalate" if lifts else verdict.decision.value, verdict.reason, verdict)


def failed(error: BaseException) -> Ending:
    """Return what it is to raise *error*; a cancellation is a question that expired."""
    if isinstance(error, asyncio.CancelledError):
        return Ending(TIMED_OUT)
    return Ending(RAISED, type_name(error))


def difference(current: Ending, candidate: Ending) -> Difference | None:
    """Return in what the two differ, the weightiest first; None where nothing that an agent acts on does.

    Messages, warnings, evidence and what an approver is shown are not compared.
    """
    if current.decision != candidate.decision:
        return "decision"
    if current.reason != candidate.reason:
        return "reason"
    if current.verdict is None or candidate.verdict is None:
        return None
    if current.verdict.transform != candidate.verdict.transform:
        return "transform"
    return None if current.verdict.result_labels == candidate.verdict.result_labels else "labels"
