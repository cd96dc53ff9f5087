"""The plan: one seed, one plan."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.chaos.plan import KINDS, make_plan


def test_the_same_seed_gives_the_same_plan() -> None:
    assert make_plan(7, 100_000) == make_plan(7, 100_000)
    assert make_plan(7, 100_000).faults != make_plan(8, 100_000).faults


def test_every_kind_of_fault_comes_equally_often_and_at_least_once() -> None:
    for emissions in (1, 3_500, 100_000):
        times = Counter(fault.kind for fault in make_plan(1, emissions).faults)
        assert set(times) == set(KINDS)
        assert len(set(times.values())) == 1


def test_every_fault_ends_within_the_planned_emissions() -> None:
    for emissions in (1, 50_000):
        plan = make_plan(2, emissions)
        assert plan.emissions >= emissions
        assert all(fault.begins > 0 and fault.begins + fault.lasts < plan.emissions for fault in plan.faults)


def test_in_the_first_round_every_fault_comes_alone() -> None:
    faults = make_plan(3, 1).faults
    for earlier, later in pairwise(faults):
        assert earlier.begins + earlier.lasts < later.begins
