"""The oracle catches what fails open: agents in which one step was made wrong, in soaks with one fault each."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_hooks import ALLOW, InterceptionRecord, Verdict

from hookbus import Failure, envelope
from hookbus_client import BusEmitter, asking, compositor, failclosed
from hookbus_client.composition import Aggregate
from tests.chaos.plan import Fault, Plan
from tests.chaos.report import Report
from tests.chaos.soak import Soak, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(90)]

UNPROVED = "permits without every required verdict"
UNGIVEN = "permits by a verdict that nobody gave"


async def soak(
    stage: Stage, kind: str, target: str, *, lasts: int = 60, make_emitter: Callable[..., BusEmitter] = BusEmitter
) -> Report:
    """Run one fault of *kind* for a while."""
    plan = Plan(seed=1, emissions=lasts + 60, faults=(Fault(kind, target, begins=20, lasts=lasts),))
    return await Soak(stage, plan, make_emitter=make_emitter).run()


FAULTS = [("worker_killed", "redactor-1"), ("wrong_id", "audit-1"), ("wrong_question", "redactor-1")]


@pytest.mark.parametrize(("kind", "target"), FAULTS)
async def test_the_agents_as_they_are_pass(stage: Stage, kind: str, target: str) -> None:
    report = await soak(stage, kind, target)
    assert report.told == []
    assert sum(report.met[0].denies.values()) > 0


async def test_an_absence_that_becomes_an_allow_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_open(failure: Failure, interceptor: str, detail: str = "") -> Verdict:
        return ALLOW

    monkeypatch.setattr(asking, "deny", fail_open)
    report = await soak(stage, "worker_killed", "redactor-1")
    assert report.violations[UNPROVED] > 0


async def test_a_silence_that_becomes_an_allow_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_open(failure: Failure, interceptor: str, detail: str = "") -> Verdict:
        return ALLOW if failure is Failure.SILENT else failclosed.deny(failure, interceptor, detail)

    monkeypatch.setattr(asking, "deny", fail_open)
    report = await soak(stage, "worker_stopped", "audit-1", lasts=250)
    assert report.violations[UNPROVED] > 0


@pytest.mark.parametrize(
    ("kind", "header"),
    [("wrong_id", envelope.ID), ("wrong_question", envelope.ID), ("wrong_interceptor", envelope.INTERCEPTOR)],
)
async def test_an_answer_that_does_not_check_and_counts_is_caught(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: str, header: str
) -> None:
    parse = envelope.parse

    def trusting(raw: bytes) -> envelope.Headers:
        status, values = parse(raw)
        return envelope.Headers(status, {name: value for name, value in values.items() if name != header})

    monkeypatch.setattr(envelope, "parse", trusting)
    report = await soak(stage, kind, "audit-1")
    assert report.violations[UNGIVEN] > 0


async def test_an_interceptor_that_is_not_asked_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_all = asking.ask_all

    async def ask_all_but_the_last(seats: Sequence[asking.Seat], *arguments: Any, **named: Any) -> list[Verdict]:
        if len(seats) < 2:
            return await ask_all(seats, *arguments, **named)
        return [*await ask_all(seats[:-1], *arguments, **named), ALLOW]

    monkeypatch.setattr(compositor, "ask_all", ask_all_but_the_last)
    report = await soak(stage, "raising", "limits-1")
    assert report.violations[UNPROVED] > 0


async def test_a_deny_that_is_lost_in_composition_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def last_one_wins(_composition: Any, verdicts: Sequence[Verdict]) -> Aggregate:
        return Aggregate(verdicts[-1], len(verdicts) - 1)

    monkeypatch.setattr(compositor, "aggregate", last_one_wins)
    report = await soak(stage, "rubbish", "redactor-1")
    assert report.violations[UNPROVED] > 0


async def test_an_emission_that_outlives_its_deadline_is_caught(stage: Stage) -> None:
    class Patient(BusEmitter):
        def register(self, *arguments: Any, timeout_s: Any = None, **named: Any) -> BusEmitter:
            return super().register(*arguments, timeout_s=timeout_s + 0.5, **named)

    report = await soak(stage, "worker_stopped", "audit-1", lasts=250, make_emitter=Patient)
    assert report.violations["emissions that outlive their deadline"] > 0
    assert report.latest_ms > 50


async def test_a_record_that_is_lost_or_made_twice_is_caught(stage: Stage) -> None:
    class Forgetful(BusEmitter):
        def take_records(self) -> list[InterceptionRecord]:
            return [record for record in super().take_records() if record.proceeds]

    class Eager(BusEmitter):
        def take_records(self) -> list[InterceptionRecord]:
            return [record for record in super().take_records() for _ in range(2)]

    lost = await soak(stage, "raising", "audit-1", make_emitter=Forgetful)
    assert lost.violations["emissions without a record"] > 0
    twice = await soak(stage, "raising", "audit-1", make_emitter=Eager)
    assert twice.violations["records that nobody or two would have made"] > 0


async def test_what_does_not_come_back_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.soak.COMEBACK_S", 1.0)
    audit = stage.fleet.workers["audit-1"]
    audit.stop()
    try:
        report = await Soak(stage, Plan(seed=1, emissions=10, faults=())).run()
    finally:
        audit.go_on()
    assert report.violations["agents and workers that did not come back"] > 0


async def test_an_emission_that_never_ends_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(BusEmitter):
        async def emit_unchecked(self, ctx: Any) -> InterceptionRecord:
            if ctx["sequence"] > 100:
                await asyncio.Event().wait()
            return await super().emit_unchecked(ctx)

    monkeypatch.setattr("tests.chaos.oracle.HANGING_S", 0.2)
    report = await Soak(stage, Plan(seed=1, emissions=1_000, faults=()), make_emitter=Stuck).run()
    assert report.violations["emissions that never end"] > 0


async def test_a_worker_that_ends_by_itself_is_caught(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.soak.COMEBACK_S", 1.0)
    worker = stage.fleet.workers["policy-2"]
    worker._signal(signal.SIGKILL)
    report = await Soak(stage, Plan(seed=1, emissions=10, faults=())).run()
    await worker.kill()
    await worker.start()
    worker.deserted = 0
    assert report.violations["workers that ended by themselves"] > 0


async def test_a_soak_that_shows_too_little_says_so(stage: Stage) -> None:
    report = await Soak(stage, Plan(1, 10, (Fault("worker_stopped", "policy-1", begins=2, lasts=0),))).run()
    assert any("worker_stopped caused 0 denies" in shortcoming for shortcoming in report.shortcomings)
