"""What the bus is held to: ratios within one run, each with its limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import linear_regression, median
from typing import Final, NamedTuple

from hookbus_client.bench.conversations import SIZES
from hookbus_client.bench.plan import Case, Contender
from hookbus_client.bench.results import Figures, Results

#: What a run says of a target; None where the run did not measure it.
Ratio = Callable[[Results], float | None]


class Target(NamedTuple):
    """One row of the table."""

    case: str
    ratio: Ratio
    limit: float
    #: The limit is the least, not the most.
    at_least: bool = False

    @property
    def wanted(self) -> str:
        """The limit as people read it."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


class Outcome(NamedTuple):
    """What became of a target over one or more runs."""

    target: Target
    #: The ratio of each run that measured it.
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """The median over the runs."""
        return median(self.ratios) if self.ratios else None

    @property
    def met(self) -> bool | None:
        """Whether the median is within the limit; None where nothing was measured."""
        if self.ratio is None:
            return None
        return self.ratio >= self.target.limit if self.target.at_least else self.ratio <= self.target.limit


def outcomes(runs: Sequence[Results]) -> list[Outcome]:
    """Return what became of every target in *runs*."""
    found = [(target, [target.ratio(run) for run in runs]) for target in TARGETS]
    return [Outcome(target, tuple(ratio for ratio in ratios if ratio is not None)) for target, ratios in found]


def _p50(figures: Figures) -> float:
    return figures.p50_us


def _per_second(figures: Figures) -> float:
    return figures.per_second


def _cpu(figures: Figures) -> float:
    return figures.cpu_us


def _against(
    case: Case,
    other: Contender,
    *,
    of: Contender = Contender.BUS,
    in_case: Case | None = None,
    figure: Callable[[Figures], float] = _p50,
) -> Ratio:
    """Return the ratio of *of* in *case* to *other* in the same case, or in *in_case*."""

    def ratio(run: Results) -> float | None:
        ours, theirs = run.find(case, of), run.find(in_case or case, other)
        return figure(ours) / figure(theirs) if ours and theirs else None

    return ratio


def _growth(run: Results) -> float | None:
    """Return the slope of time over bytes, both as logarithms: 1 is linear (least squares, 13 KB to 4 MB)."""
    sizes = [name for name, size in SIZES.items() if size >= SIZES["13 KB"]]
    points = [
        (math.log(SIZES[name]), math.log(found.p50_us))
        for name in sizes
        if (found := run.find(Case(name, 3), Contender.BUS))
    ]
    if not points or run.find(Case(sizes[-1], 3), Contender.BUS) is None:
        return None
    return linear_regression(*zip(*points, strict=True)).slope


def _scaling(run: Results) -> float:
    extras = run.extras
    return extras.scaled_all_per_second / extras.scaled_one_per_second / extras.scaled_workers


def _memory(run: Results) -> float:
    return run.extras.memory_after_bytes / run.extras.memory_before_bytes


_SMALL: Final = Case("0.5 KB", 1)
_USUAL: Final = Case("13 KB", 3)
_BUSY: Final = Case("13 KB", 3, 32)
_SDK, _BARE, _HTTP, _BUS = Contender.SDK, Contender.BARE, Contender.HTTP, Contender.BUS

TARGETS: Final = (
    Target(
        "0.5 KB, 1 interceptor: a whole emission / a bare request of the same bytes", _against(_SMALL, _BARE), 1.25
    ),
    Target("13 KB, 3 interceptors: hookbus / the SDK's emitter in process", _against(_USUAL, _SDK), 0.60),
    Target("256 KB, 3 interceptors: the same", _against(Case("256 KB", 3), _SDK), 0.15),
    Target(
        "13 KB: 8 interceptors / 1 interceptor", _against(Case("13 KB", 8), _BUS, in_case=Case("13 KB", 1)), 1.8
    ),
    *(
        Target(
            f"{size}, 3 interceptors, sequential / three bare requests one after another",
            _against(Case(size, 3, sequential=True), _BARE),
            1.15,
        )
        for size in ("0.5 KB", "13 KB")
    ),
    Target(
        "13 KB, 3 interceptors, 32 callers: emissions per second, hookbus / HTTP webhooks",
        _against(_BUSY, _HTTP, figure=_per_second),
        2.0,
        at_least=True,
    ),
    Target("the same: agent's processor time per emission", _against(_BUSY, _HTTP, figure=_cpu), 0.5),
    Target(
        "absent interceptor: time to deny / one bare request", _against(_SMALL, _BARE, of=Contender.ABSENT), 2.0
    ),
    Target("13 KB, 3 interceptors: signed both ways / unsigned", _against(_USUAL, _BUS, of=Contender.SIGNED), 1.6),
    Target("growth from 13 KB to 4 MB, 3 interceptors: exponent of the bytes", _growth, 1.0),
    Target("20 ms interceptor: throughput of 16 workers / 16 × that of one", _scaling, 0.9, at_least=True),
    # An allocator may keep a page more or less: a leak of one record an emission would be ten times this.
    Target("an agent's memory after 10,000 more emissions / before", _memory, 1.02),
)
