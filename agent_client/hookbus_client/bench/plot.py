"""Line charts as SVG: a few lines of it, so that the bench needs no library for two pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from hookbus_client.bench.conversations import SIZES
from hookbus_client.bench.plan import NAMES, Case, Contender
from hookbus_client.bench.report import duration
from hookbus_client.bench.results import Results

_WIDTH: Final = 560
_HEIGHT: Final = 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 18, 40, 104
#: Told apart also by those who see few colours.
_COLOURS: Final = {
    Contender.BUS: "#0072b2",
    Contender.SIGNED: "#56b4e9",
    Contender.SDK: "#d55e00",
    Contender.HTTP: "#009e73",
    Contender.GRPC: "#cc79a7",
    Contender.BARE: "#999999",
}


class Line(NamedTuple):
    """One contender's line: points as ``(x, y)``, both above 0."""

    contender: Contender
    points: list[tuple[float, float]]


class Chart(NamedTuple):
    """One chart with logarithmic axes; ``ticks`` are the names of the places on the x axis."""

    title: str
    ticks: dict[str, float]
    lines: list[Line]
    #: Whether y is a time in microseconds, otherwise a rate.
    of_time: bool


def charts(run: Results) -> list[Chart]:
    """Return the charts of a run: time by size, and throughput by callers."""
    sizes = {name: float(size) for name, size in SIZES.items()}
    callers = {str(number): float(number) for number in (1, 32, 256)}
    return [
        Chart(
            "Time of one emission (p50), 3 interceptors in parallel, by size of the context",
            sizes,
            _lines(run, {Case(name, 3): x for name, x in sizes.items()}, of_time=True),
            of_time=True,
        ),
        Chart(
            "Emissions per second, 13 KB, 3 interceptors in parallel, by callers",
            callers,
            _lines(run, {Case("13 KB", 3, int(x)): x for x in callers.values()}, of_time=False),
            of_time=False,
        ),
    ]


def _lines(run: Results, places: dict[Case, float], *, of_time: bool) -> list[Line]:
    lines = []
    for contender in _COLOURS:
        found = [(x, figures) for case, x in places.items() if (figures := run.find(case, contender))]
        points = [(x, figures.p50_us if of_time else figures.per_second) for x, figures in found]
        if points:
            lines.append(Line(contender, points))
    return lines


def svg(drawn: Sequence[Chart]) -> str:
    """Return *drawn*, side by side, as one SVG document."""
    width = _WIDTH * len(drawn)
    panels = "\n".join(
        f'<g transform="translate({index * _WIDTH} 0)">{_panel(chart)}</g>' for index, chart in enumerate(drawn)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{_HEIGHT}" fill="white"/>\n{panels}\n</svg>\n'
    )


def _panel(chart: Chart) -> str:
    values = [y for line in chart.lines for _, y in line.points] or [1.0]
    low, high = math.floor(math.log10(min(values))), max(math.ceil(math.log10(max(values))), 1)
    first, last = math.log10(min(chart.ticks.values())), math.log10(max(chart.ticks.values()))

    def across(x: float) -> float:
        return _LEFT + (math.log10(x) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def down(y: float) -> float:
        return _TOP + (high - math.log10(y)) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text x="{_LEFT}" y="22" font-weight="600">{escape(chart.title)}</text>']
    for power in range(low, high + 1):
        y = 10.0**power
        label = duration(y) if chart.of_time else f"{y:,.0f}"
        parts += [_segment(_LEFT, down(y), _WIDTH - _RIGHT, down(y)), _text(_LEFT - 8, down(y) + 4, label, "end")]
    for name, x in chart.ticks.items():
        parts += [_segment(across(x), _TOP, across(x), _HEIGHT - _BOTTOM)]
        parts += [_text(across(x), _HEIGHT - _BOTTOM + 18, name, "middle")]
    for index, line in enumerate(chart.lines):
        colour = _COLOURS[line.contender]
        points = [f"{across(x):.1f},{down(y):.1f}" for x, y in line.points]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{colour}"/>' for p in points]
        x, y = _LEFT + index % 3 * 155, _HEIGHT - _BOTTOM + 48 + index // 3 * 20
        parts.append(f'<rect x="{x}" y="{y - 6}" width="18" height="3" fill="{colour}"/>')
        parts.append(_text(x + 24, y, NAMES[line.contender], "start"))
    return "\n".join(parts)


def _segment(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
