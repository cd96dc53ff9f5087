"""Which fault caused which deny, and how long things took to come back: the figures of a report."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Final

import msgspec

from hookbus import Failure
from tests.chaos.bending import CONTRADICTED
from tests.chaos.oracle import Emission
from tests.chaos.plan import AGENTS, KINDS, PROCESS_KINDS, SERVER, SERVER_KINDS, WORKERS, Fault

#: How long after its target was heard again a fault may still cost something.
TAIL_S: Final = 0.25
#: For how long a fault that is over is still looked at: longer than an emission takes.
LOOK_BACK_S: Final = 5.0

#: The faults that a class of failure can come of, where not every fault can cause it.
_KINDS: Final = {
    "bus_down": {*SERVER_KINDS, "agent_cut", "agent_held"},
    "absent": {*PROCESS_KINDS, *SERVER_KINDS, "worker_cut", "oversize_frame"},
    "forged": {"wrong_question", "wrong_id", "wrong_interceptor", "malformed_headers"},
    "raised": {"raising", "oversize_verdict"},
    "malformed": {"rubbish"},
    "unsendable": {"oversize_context"},
    CONTRADICTED: {"twice"},
}
_CLASSES: Final = frozenset(failure.label for failure in Failure)
_INTERCEPTOR_OF: Final = {worker: name for name, workers in WORKERS.items() for worker in workers}


class Occurrence(msgspec.Struct, eq=False):
    """A fault of the plan as it happened. Instants are of the loop's clock; None is not yet."""

    fault: Fault
    began_s: float
    ended_s: float | None = None
    #: From its end to the first emission of its target that was begun after that and permitted.
    recovered_s: float | None = None

    @property
    def interceptor(self) -> str | None:
        """The interceptor whose worker it met, if it met one."""
        return _INTERCEPTOR_OF.get(self.fault.target)

    def over_by(self, instant_s: float) -> bool:
        """Whether it costs nothing any more at that instant."""
        if self.ended_s is None or self.recovered_s is None:
            return False
        return instant_s > self.ended_s + self.recovered_s + TAIL_S

    def concerns(self, emission: Emission) -> bool:
        """Whether *emission* needs what the fault met."""
        target = self.fault.target
        return target in (SERVER, emission.agent) or self.interceptor in emission.required


class Causes:
    """Ascribes denies to the faults that were there: to the only one, or to none in particular."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._recent: list[Occurrence] = []
        self.all: list[Occurrence] = []
        #: Denies by kind of fault and failure class, where one fault alone can have caused them.
        self.denies: defaultdict[str, Counter[str]] = defaultdict(Counter)
        #: Denies with more than one possible cause, and with none, by failure class.
        self.shared: Counter[str] = Counter()
        self.by_nothing: Counter[str] = Counter()
        #: Denies that an interceptor really decided.
        self.decided = 0
        #: By second: permits, denies decided, denies by faults.
        self.seconds: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._began_s = self._loop.time()

    def begin(self, fault: Fault) -> Occurrence:
        """Note that *fault* begins now."""
        occurrence = Occurrence(fault, self._loop.time())
        self._recent.append(occurrence)
        self.all.append(occurrence)
        return occurrence

    def end(self, occurrence: Occurrence) -> None:
        """Note that the fault is over now: all that it met has been put back."""
        occurrence.ended_s = self._loop.time()

    def since_begin(self, instant_s: float) -> float:
        """Return the seconds from the begin of the soak until *instant_s*."""
        return instant_s - self._began_s

    def second(self, number: int) -> tuple[int, int, int]:
        """Return the permits, the denies decided and the denies by faults of that second."""
        permits, decided, failed = self.seconds.get(number, (0, 0, 0))
        return permits, decided, failed

    def note(self, emission: Emission, failed: frozenset[str]) -> None:
        """Take an emission and the interceptors that a fault kept from deciding."""
        second = self.seconds[int(self.since_begin(emission.ended_s))]
        if emission.permitted:
            second[0] += 1
            self._note_recoveries(emission)
            return
        label = _failure_class(emission, failed)
        if label is None:
            second[1] += 1
            self.decided += 1
            return
        second[2] += 1
        kinds = self._possible_kinds(emission, failed, label)
        if not kinds:
            self.by_nothing[label] += 1
        elif len(kinds) > 1:
            self.shared[label] += 1
        else:
            self.denies[kinds.pop()][label] += 1

    def _possible_kinds(self, emission: Emission, failed: frozenset[str], label: str) -> set[str]:
        causes = [o for o in self._recent if _may_have_caused(o, emission, failed)]
        causes = [o for o in causes if o.fault.kind in _KINDS.get(label, KINDS)]
        # What is over is a cause only where nothing else is.
        lasting = [o for o in causes if o.ended_s is None or o.ended_s >= emission.began_s]
        return {o.fault.kind for o in lasting or causes}

    def _note_recoveries(self, emission: Emission) -> None:
        for occurrence in self._recent:
            ended_s = occurrence.ended_s
            if ended_s is None or occurrence.recovered_s is not None or emission.began_s < ended_s:
                continue
            if occurrence.concerns(emission):
                occurrence.recovered_s = emission.ended_s - ended_s
        # Emissions that are still to be judged began at most a few seconds before this one.
        self._recent = [o for o in self._recent if not o.over_by(emission.began_s - LOOK_BACK_S)]


def _may_have_caused(occurrence: Occurrence, emission: Emission, failed: frozenset[str]) -> bool:
    if occurrence.began_s > emission.ended_s or occurrence.over_by(emission.began_s):
        return False
    if occurrence.fault.kind == "oversize_context":
        return occurrence.fault.target == emission.agent and not failed
    if occurrence.fault.target in (SERVER, *AGENTS):
        return occurrence.concerns(emission) and bool(failed)
    return occurrence.interceptor in failed


def _failure_class(emission: Emission, failed: frozenset[str]) -> str | None:
    """Return the class of failure that denied *emission*; None where an interceptor really denied it."""
    assert emission.record is not None
    verdict = emission.record.verdict
    label = (verdict.message or "").partition(":")[0]
    if label in _CLASSES:
        return label
    if verdict.reason == CONTRADICTED:
        return CONTRADICTED
    # What the unanimous profile makes of any deny says nothing of its class.
    return "disagreement" if failed else None
