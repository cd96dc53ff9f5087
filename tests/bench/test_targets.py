"""How ratios are made of a run, on runs whose figures are written here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from hookbus_client.bench import agent, plan, plot, report
from hookbus_client.bench.agent import Measured
from hookbus_client.bench.conversations import SIZES, TOOL_CALL, body_of, context_of, session_bytes
from hookbus_client.bench.plan import NAMES, Case, Contender
from hookbus_client.bench.results import Extras, Figures, Machine, Results, figures, percentile
from hookbus_client.bench.targets import TARGETS, outcomes

EXTRAS = Extras(10_000, 100, 101, 16, 50.0, 720.0, 200, 1000, 100_000)
MACHINE = Machine("a processor", 2, 4, "an OS", "a Python", "2", {}, 0.0)
SMALL = Case("0.5 KB", 1)


def run_of(p50s: Mapping[tuple[Case, Contender], float], extras: Extras = EXTRAS) -> Results:
    found = [
        Figures(case, who, 1, p50_us=us, p90_us=us, p99_us=us, per_second=1e6 / us, cpu_us=us, rounds_p50_us=[us])
        for (case, who), us in p50s.items()
    ]
    return Results("test", "today", 1.0, MACHINE, found, extras)


def test_a_ratio_within_its_limit_is_met_and_one_beyond_it_is_missed() -> None:
    target, *_ = TARGETS
    met, *_ = outcomes([run_of({(SMALL, Contender.BUS): 125.0, (SMALL, Contender.BARE): 100.0})])
    missed, *_ = outcomes([run_of({(SMALL, Contender.BUS): 126.0, (SMALL, Contender.BARE): 100.0})])
    assert (met.target, met.ratio, met.met) == (target, 1.25, True)
    assert (missed.ratio, missed.met) == (1.26, False)


def test_what_a_run_did_not_measure_is_neither_met_nor_missed() -> None:
    unmeasured, *_ = outcomes([run_of({})])
    assert unmeasured.ratio is None
    assert unmeasured.met is None


def test_several_runs_give_the_median_of_each_ratio() -> None:
    runs = [run_of({(SMALL, Contender.BUS): us, (SMALL, Contender.BARE): 100.0}) for us in (300.0, 110.0, 120.0)]
    first, *_ = outcomes(runs)
    assert first.ratio == pytest.approx(1.2)


def test_a_target_that_is_a_least_is_missed_below_it() -> None:
    busy = Case("13 KB", 3, 32)
    slower = run_of({(busy, Contender.BUS): 60.0, (busy, Contender.HTTP): 100.0})
    outcome = next(o for o in outcomes([slower]) if o.target.at_least and o.ratio is not None)
    assert outcome.ratio == pytest.approx(100 / 60)
    assert outcome.met is False


def test_growth_is_the_exponent_of_the_bytes() -> None:
    linear = {(Case(name, 3), Contender.BUS): float(size) for name, size in SIZES.items()}
    square = {(Case(name, 3), Contender.BUS): float(size) ** 2 for name, size in SIZES.items()}
    growth = next(index for index, target in enumerate(TARGETS) if target.case.startswith("growth"))
    assert outcomes([run_of(linear)])[growth].ratio == pytest.approx(1.0)
    assert outcomes([run_of(square)])[growth].ratio == pytest.approx(2.0)


def test_throughput_and_memory_are_told_as_ratios() -> None:
    *_, scaling, memory = outcomes([run_of({})])
    assert scaling.ratio == pytest.approx(0.9)
    assert memory.ratio == pytest.approx(1.01)
    assert scaling.met
    assert memory.met


@pytest.mark.parametrize("made", [plan.full, plan.quick])
def test_a_plan_measures_every_target(made: object) -> None:
    assert callable(made)
    cases = made().cases
    everything = run_of({(case, who): 1.0 for case, contenders in cases.items() for who in contenders})
    assert [outcome.target.case for outcome in outcomes([everything]) if outcome.ratio is None] == []


def test_losses_are_the_cases_in_which_something_else_was_faster() -> None:
    run = run_of(
        {
            (SMALL, Contender.BUS): 300.0,
            (SMALL, Contender.HTTP): 200.0,
            (SMALL, Contender.GRPC): 400.0,
            (SMALL, Contender.BARE): 100.0,
        }
    )
    assert [row[1] for row in report.losses(run).rows] == ["HTTP"]


def test_the_picture_has_a_line_for_each_contender_through_its_points() -> None:
    sizes = [Case(name, 3) for name in SIZES]
    run = run_of({(case, who): 50.0 for case in sizes for who in (Contender.BUS, Contender.SDK)})
    root = ElementTree.fromstring(plot.svg(plot.charts(run)))
    lines = [line.attrib["points"].split() for line in root.iter("{http://www.w3.org/2000/svg}polyline")]
    # By size, and by callers, where one of the places was measured.
    assert [len(points) for points in lines] == [len(SIZES), len(SIZES), 1, 1]
    assert {NAMES[Contender.BUS], NAMES[Contender.SDK]} <= {text.text for text in root.iter() if text.text}


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([1.0], 99) == 1.0
    assert percentile([1.0, 2.0], 50) == 1.0
    assert percentile([float(n) for n in range(1, 101)], 90) == 90.0


def test_figures_pool_the_rounds_and_keep_each_rounds_median() -> None:
    rounds = [Measured([10.0, 30.0], 2, 1.0, 0.5, 1), Measured([20.0, 40.0], 1, 1.0, 0.5, 1)]
    found = figures(SMALL, Contender.BUS, rounds)
    assert (found.emissions, found.p50_us, found.per_second, found.cpu_us) == (4, 20.0, 1.5, 250_000.0)
    assert found.rounds_p50_us == [20.0, 30.0]


@pytest.mark.anyio
@pytest.mark.parametrize(("seconds", "counted", "counted_s"), [(4.0, 4, 4.0), (0.0, 2, 2.0), (1.0, 2, 2.0)])
async def test_a_rate_counts_what_ended_while_all_callers_went_on(
    monkeypatch: pytest.MonkeyPatch, seconds: float, counted: int, counted_s: float
) -> None:
    now_s = 0.0

    async def emission() -> None:
        nonlocal now_s
        await asyncio.sleep(0)
        now_s += 1.0

    monkeypatch.setattr(agent.time, "perf_counter", lambda: now_s)
    measured = await agent.measure(emission, agent.Slice(Case("0.5 KB", 1, 2), seconds))
    assert (measured.counted, measured.counted_s) == (counted, counted_s)
    assert len(measured.latencies_us) == max(counted, 2) + (seconds == 4.0)


@pytest.mark.parametrize("name", SIZES)
def test_a_context_has_its_size_and_is_made_of_messages(name: str) -> None:
    context = context_of(name)
    assert len(body_of(context).body) == pytest.approx(SIZES[name], rel=0.02)
    assert max(len(message["content"]) for message in context["messages"]) <= 1500


def test_a_tool_call_is_measured_too() -> None:
    assert context_of(TOOL_CALL)["tool_call"]["name"] == "book_ticket"


def test_a_session_twice_as_long_is_sent_four_times_the_bytes() -> None:
    (short, sent_short), (long, sent_long) = session_bytes(100), session_bytes(200)
    assert long / short == pytest.approx(2, rel=0.1)
    assert sent_long / sent_short == pytest.approx(4, rel=0.1)
