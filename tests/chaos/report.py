"""What came of a soak: figures, whether it holds, and how they are shown."""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import Final, Self

import msgspec
from rich.console import Group
from rich.table import Table

from tests.chaos.causes import Causes
from tests.chaos.oracle import TOLERANCE_S, Oracle
from tests.chaos.plan import Plan

#: What a soak of 100,000 emissions must have met in denies, for each kind of fault; fewer for a shorter one.
DENIES_PER_100_000: Final = 100


class Met(msgspec.Struct, frozen=True):
    """What one kind of fault came to."""

    kind: str
    times: int
    #: Denies that it alone can have caused, by class of failure.
    denies: dict[str, int]
    #: Seconds from its end until its target was heard again: the mean and the longest.
    recovery_mean_s: float
    recovery_longest_s: float


class Report(msgspec.Struct, frozen=True):
    """The figures of one soak."""

    seed: int
    planned: int
    emissions: int
    permitted: int
    decided_denies: int
    met: list[Met]
    #: Denies with more than one possible fault, and with none, by class.
    shared_denies: dict[str, int]
    causeless_denies: dict[str, int]
    #: How long the latest emission took over its deadline: without the stalls of its own loop, and with them.
    latest_ms: float
    latest_with_stalls_ms: float
    longest_stall_ms: float
    dropped_answers: dict[str, int]
    violations: dict[str, int]
    told: list[str]
    #: For each second: permits, decided denies, denies by faults.
    seconds: list[tuple[int, int, int]]
    #: ``(kind, begin, end)`` of each fault, in seconds.
    faults: list[tuple[str, float, float]]
    machine: str

    @classmethod
    def of(cls, plan: Plan, oracle: Oracle, causes: Causes, dropped: Counter[str]) -> Self:
        """Return the report of a soak that has ended."""
        met = []
        for kind in sorted({fault.kind for fault in plan.faults}):
            occurrences = [o for o in causes.all if o.fault.kind == kind]
            recoveries = [o.recovered_s for o in occurrences if o.recovered_s is not None] or [0.0]
            mean_s = sum(recoveries) / len(recoveries)
            denies = dict(causes.denies[kind].most_common())
            met.append(Met(kind, len(occurrences), denies, round(mean_s, 3), round(max(recoveries), 3)))
        last = max(causes.seconds, default=0)
        return cls(
            seed=plan.seed,
            planned=plan.emissions,
            emissions=oracle.judged,
            permitted=oracle.permitted,
            decided_denies=causes.decided,
            met=met,
            shared_denies=dict(causes.shared.most_common()),
            causeless_denies=dict(causes.by_nothing.most_common()),
            latest_ms=round(oracle.latest_s * 1000, 1),
            latest_with_stalls_ms=round(oracle.latest_with_stalls_s * 1000, 1),
            longest_stall_ms=round(oracle.ticker.longest_s * 1000, 1),
            dropped_answers=dict(dropped.most_common()),
            violations=dict(oracle.violations),
            told=oracle.told,
            seconds=[causes.second(number) for number in range(last + 1)],
            faults=[
                (
                    o.fault.kind,
                    round(causes.since_begin(o.began_s), 2),
                    round(causes.since_begin(o.ended_s or 0), 2),
                )
                for o in causes.all
            ],
            machine=f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        )

    @property
    def shortcomings(self) -> list[str]:
        """Return why this soak does not show what it must; empty when it does."""
        wanted = max(1, DENIES_PER_100_000 * min(self.planned, 100_000) // 100_000)
        found = [f"{count} {what}" for what, count in self.violations.items()]
        found += [
            f"{kind.kind} caused {sum(kind.denies.values())} denies, not {wanted}"
            for kind in self.met
            if sum(kind.denies.values()) < wanted
        ]
        if self.emissions < self.planned:
            found.append(f"{self.emissions} emissions, not {self.planned}")
        if self.permitted * 2 < self.emissions:
            found.append(f"{self.permitted} of {self.emissions} permitted, not half")
        return found

    @property
    def totals(self) -> list[tuple[str, str]]:
        """Return the figures that stand for the whole soak."""
        none = "none"
        return [
            ("emissions", f"{self.emissions:,} in {len(self.seconds):,} s"),
            ("permitted", f"{self.permitted:,} ({self.permitted / max(1, self.emissions):.1%})"),
            ("denied by an interceptor's decision", f"{self.decided_denies:,}"),
            ("denied by one fault alone", f"{sum(sum(kind.denies.values()) for kind in self.met):,}"),
            ("denied with several faults at once", f"{sum(self.shared_denies.values()):,}"),
            ("denied with no fault near", f"{sum(self.causeless_denies.values()):,}"),
            ("latest over its deadline", f"{self.latest_ms:g} ms (limit {TOLERANCE_S * 1000:g} ms)"),
            ("the same with this process's own stalls", f"{self.latest_with_stalls_ms:g} ms"),
            ("this process's longest stall", f"{self.longest_stall_ms:g} ms"),
            ("answers dropped", ", ".join(f"{n:,} {c}" for c, n in self.dropped_answers.items()) or none),
            ("violations", ", ".join(f"{n} {what}" for what, n in self.violations.items()) or none),
        ]

    def show(self) -> Group:
        """Return the report as tables for a terminal."""
        totals = Table("figure", "value", title=f"Seed {self.seed}, {self.machine}")
        for figure, value in self.totals:
            totals.add_row(figure, value)
        faults = Table("fault", "times", "denies", "by class", "back after, mean", "longest", title="Faults")
        for row in self.rows():
            faults.add_row(*row)
        return Group(totals, faults)

    def rows(self) -> list[tuple[str, ...]]:
        """Return one row for each kind of fault."""
        return [
            (
                kind.kind,
                f"{kind.times}",
                f"{sum(kind.denies.values()):,}",
                ", ".join(f"{label} {count:,}" for label, count in kind.denies.items()),
                f"{kind.recovery_mean_s:.2f} s",
                f"{kind.recovery_longest_s:.2f} s",
            )
            for kind in self.met
        ]
