"""The oracle: checks every emission against what was really decided, trusting nothing that it checks.

It knows which verdicts were given by the proofs in them (:mod:`tests.chaos.proofs`), and what they had to be by
the decisions themselves. All it takes from the code under test is what an agent acts on: the record, and the
context as it stands afterwards.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
from agent_hooks import InterceptionRecord

from tests.chaos.bending import CONTRADICTED
from tests.chaos.decisions import REDACTED, REDACTOR, decision
from tests.chaos.proofs import Notary, Proof
from tests.chaos.stalls import Ticker

#: How much later than its deadline an emission may end, stalls of its own process not counted.
TOLERANCE_S: Final = 0.05
#: An emission that takes so much longer than its deadline hangs, and the soak ends.
HANGING_S: Final = 20.0


class Emission(msgspec.Struct, eq=False):
    """One emission as its agent saw it. Instants are of the loop's clock."""

    agent: str
    required: tuple[str, ...]
    context: dict[str, Any]
    #: The arguments before any transform.
    args: dict[str, Any]
    began_s: float
    deadline_s: float
    #: When its first questions had been asked, or none were: the loop ran again then.
    asked_s: float = 0.0
    ended_s: float = 0.0
    #: What ``emit_unchecked`` returned.
    record: InterceptionRecord | None = None

    @property
    def number(self) -> tuple[str, int]:
        """The session and the sequence: which emission this is."""
        return self.context["session"]["id"], self.context["sequence"]

    @property
    def permitted(self) -> bool:
        """Whether the agent may act."""
        return self.record is not None and self.record.proceeds


class Oracle:
    """Takes emissions as they begin and end, and holds every violation.

    ``on_judged`` is told of each emission once it has been checked, at the tick of the loop after its end.
    """

    def __init__(self, notary: Notary, on_judged: Callable[[Emission, frozenset[str]], None]) -> None:
        self._notary = notary
        self._on_judged = on_judged
        self._open: dict[tuple[str, int], Emission] = {}
        self._ended: deque[Emission] = deque()
        self._unrecorded: set[tuple[str, int]] = set()
        self.ticker = Ticker(self._tick)
        #: What must be 0, by kind.
        self.violations: Counter[str] = Counter()
        #: The first violations, told.
        self.told: list[str] = []
        self.judged = 0
        self.permitted = 0
        #: The longest that an emission took over its deadline, with and without the loop's own stalls.
        self.latest_s = 0.0
        self.latest_with_stalls_s = 0.0
        #: The workers whose verdicts have permitted something since this was last cleared.
        self.heard: set[str] = set()

    def begin(self, emission: Emission) -> None:
        """Take an emission that is about to be made."""
        self._open[emission.number] = emission
        self._unrecorded.add(emission.number)

    def end(self, emission: Emission, records: list[InterceptionRecord]) -> None:
        """Take an emission that has ended, and the records that its emitter holds."""
        del self._open[emission.number]
        for record in records:
            number = record.session_id, record.sequence
            if number not in self._unrecorded:
                self.violate("records that nobody or two would have made", f"{number}")
            self._unrecorded.discard(number)
        self._ended.append(emission)

    def finish(self) -> None:
        """Check what can be checked only when everything has ended."""
        self.ticker.close()
        while self._ended:
            self._judge(self._ended.popleft())
        for number in self._unrecorded:
            self.violate("emissions without a record", f"{number}")

    def violate(self, what: str, detail: str) -> None:
        """Note a violation."""
        self.violations[what] += 1
        if len(self.told) < 50:
            self.told.append(f"{what}: {detail}")

    def hanging(self, now: float) -> bool:
        """Whether some emission has not ended long after its deadline; notes it."""
        late = [emission for emission in self._open.values() if now > emission.deadline_s + HANGING_S]
        for emission in late:
            self.violate("emissions that never end", f"{emission.agent} {emission.number}")
        return bool(late)

    # ---- judging -----------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        while self._ended and self._ended[0].ended_s <= now:
            self._judge(self._ended.popleft())

    def _judge(self, emission: Emission) -> None:
        self.judged += 1
        self._check_time(emission)
        record = emission.record
        failed: frozenset[str] = frozenset()
        if record is None or (record.session_id, record.sequence) != emission.number:
            self.violate("emissions without a record", f"{emission.agent} {emission.number}")
        elif record.proceeds:
            self.permitted += 1
            self._check_permit(emission, record)
        else:
            failed = self._check_deny(emission, record)
        self._on_judged(emission, failed)

    def _check_time(self, emission: Emission) -> None:
        over_s = emission.ended_s - emission.deadline_s
        if over_s <= 0:
            return
        self.latest_with_stalls_s = max(self.latest_with_stalls_s, over_s)
        # A stall before the first question was asked makes its deadline come later; one at the deadline, its end.
        over_s -= self.ticker.stalled_s(emission.began_s, emission.asked_s)
        over_s -= self.ticker.stalled_s(max(emission.deadline_s, emission.asked_s), emission.ended_s)
        self.latest_s = max(self.latest_s, over_s)
        if over_s > TOLERANCE_S:
            self.violate(
                "emissions that outlive their deadline",
                f"{emission.agent} {emission.number} by {over_s * 1000:.0f} ms",
            )

    def _check_permit(self, emission: Emission, record: InterceptionRecord) -> None:
        proved: dict[str, Proof] = {}
        for label in record.verdict.result_labels:
            proof = self._notary.read(label, *emission.number)
            if proof is None:
                self.violate(
                    "permits by a verdict that nobody gave", f"{emission.agent} {emission.number} {label}"
                )
            else:
                proved[proof.interceptor] = proof
        for interceptor in emission.required:
            wanted = decision(interceptor, emission.args)
            given = proved[interceptor].decision if interceptor in proved else "nothing"
            if given != wanted or wanted == "deny":
                what = f"{emission.agent} {emission.number}: {interceptor} said {given}, would say {wanted}"
                self.violate("permits without every required verdict", what)
        secret = emission.context["target"].get("secret", REDACTED)
        if REDACTOR in emission.required and secret != REDACTED:
            self.violate("permits without their transform", f"{emission.agent} {emission.number}")
        self.heard |= {proof.worker for proof in proved.values()}

    def _check_deny(self, emission: Emission, record: InterceptionRecord) -> frozenset[str]:
        """Return the interceptors that a fault kept from deciding; none when one of them really denied."""
        failed = set()
        for summary in record.verdicts or ():
            reason = summary.reason or ""
            if reason == CONTRADICTED or reason.startswith("host_error:"):
                failed.add(summary.name or "")
            elif summary.decision.value == "deny":
                proof = self._notary.read(reason, *emission.number)
                if (
                    proof is None
                    or proof.decision != "deny"
                    or decision(proof.interceptor, emission.args) != "deny"
                ):
                    self.violate("denies that nobody gave", f"{emission.agent} {emission.number}")
        return frozenset(failed)
