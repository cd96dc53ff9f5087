"""How a trial goes: counted for each phase and point, with the disagreements; bounded, and without a payload."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final, NamedTuple

import msgspec

from hookbus_interceptors.shadow.comparison import FAILURES, Difference, Ending, Said, difference

#: Phases that are remembered; the oldest are forgotten.
MAX_PHASES: Final = 6
#: Kinds of disagreements that are told apart in a phase; more are counted as ``others``.
MAX_KINDS: Final = 24

#: What is counted. Every question is decided by one of the two …
CURRENT: Final = "decided_by_current"
CANDIDATE: Final = "decided_by_candidate"
#: … and one of a chosen session in shadow also is one of these, or one of ``FAILURES``.
AGREED: Final = "agreed"
DISAGREED: Final = "disagreed"
SKIPPED: Final = "skipped"


class Phase(msgspec.Struct, frozen=True):
    """A stretch of a trial in which nothing was changed."""

    stage: str
    share: float
    #: The version of each of the two.
    current: str
    candidate: str


class Disagreement(msgspec.Struct, frozen=True):
    """So many questions of one point were answered so by one and so by the other."""

    point: str
    differs: Difference
    current: Said
    candidate: Said
    count: int


class PhaseCounts(msgspec.Struct, frozen=True):
    """What a worker counted in one phase, the most frequent disagreements first."""

    phase: Phase
    counts: dict[str, int]
    disagreements: list[Disagreement] = []
    #: Questions whose disagreement is of a kind beyond ``MAX_KINDS``.
    others: int = 0


class _Kind(NamedTuple):
    point: str
    differs: Difference
    current: Said
    candidate: Said


class _Kept:
    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.kinds: Counter[_Kind] = Counter()
        self.others: Counter[str] = Counter()


class Counts:
    """What a trial has come to in this worker, in any number of phases. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Phase, _Kept] = {}

    def begin(self, phase: Phase) -> None:
        """Show *phase*, although no question has come in it."""
        with self._lock:
            self._of(phase)

    def note(self, phase: Phase, point: str, what: str) -> None:
        """Count one question at *point*."""
        with self._lock:
            self._of(phase).counts[point, what] += 1

    def compare(self, phase: Phase, point: str, current: Ending, candidate: Ending) -> None:
        """Count one question that both have ended."""
        differs = difference(current, candidate)
        compared = AGREED if differs is None else DISAGREED
        what = candidate.decision if candidate.decision in FAILURES else compared
        with self._lock:
            kept = self._of(phase)
            kept.counts[point, what] += 1
            if differs is None:
                return
            kind = _Kind(point, differs, current.said, candidate.said)
            if kind in kept.kinds or len(kept.kinds) < MAX_KINDS:
                kept.kinds[kind] += 1
            else:
                kept.others[point] += 1

    def shown(self, point: str | None = None) -> list[PhaseCounts]:
        """Return what was counted at *point*, or at all of them, the latest phase last."""
        with self._lock:
            return [_shown(phase, kept, point) for phase, kept in self._kept.items()]

    def _of(self, phase: Phase) -> _Kept:
        # Taken out and put back: the latest is the last one.
        kept = self._kept.pop(phase) if phase in self._kept else _Kept()
        self._kept[phase] = kept
        if len(self._kept) > MAX_PHASES:
            del self._kept[next(iter(self._kept))]
        return kept


def _shown(phase: Phase, kept: _Kept, point: str | None) -> PhaseCounts:
    counts: Counter[str] = Counter()
    for (where, what), count in kept.counts.items():
        if point in (None, where):
            counts[what] += count
    kinds = [Disagreement(*kind, count) for kind, count in kept.kinds.most_common() if point in (None, kind.point)]
    return PhaseCounts(phase, dict(counts), kinds, kept.others[point] if point else kept.others.total())
