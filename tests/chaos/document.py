"""The report of a long soak as a part of the documentation: tables, and a plot of every second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.chaos.report import Report

_WIDTH: Final = 900
_HEIGHT: Final = 260
_LEFT: Final = 44
_BOTTOM: Final = 226
_TOP: Final = 24
_COLOURS: Final = (("permitted", "#4c9f70"), ("denied by decision", "#8a8fa3"), ("denied by a fault", "#d1495b"))


def write_document(report: Report, folder: Path) -> None:
    """Put the tables of *report* into ``chaos.md`` of *folder*, and its plot beside it as ``chaos.svg``."""
    put_section(folder, "totals", [("figure", "value"), *report.totals])
    header = ("fault", "times", "denies", "by class", "back after, mean", "longest")
    put_section(folder, "faults", [header, *report.rows()])
    (folder / "chaos.svg").write_text(as_svg(report), "utf-8")


def put_section(folder: Path, name: str, rows: Sequence[tuple[str, ...]]) -> None:
    """Put a table, header first, between the marks of that *name* in ``chaos.md`` of *folder*."""
    path = folder / "chaos.md"
    begin, end = f"<!-- {name}: written by the run -->\n", f"<!-- {name}: end -->"
    before, mark, rest = path.read_text("utf-8").partition(begin)
    if not mark:
        raise ValueError(f"{path} has no place for {name}")
    header, *body = rows
    lines = [header, tuple("---" for _ in header), *body]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    path.write_text(f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}", "utf-8")


def as_svg(report: Report) -> str:
    """Return one bar for each second: what was permitted, what was denied, and why."""
    highest = max((sum(second) for second in report.seconds), default=1) or 1
    bar = (_WIDTH - _LEFT) / max(1, len(report.seconds))
    scale = (_BOTTOM - _TOP) / highest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="11">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for layer, (name, colour) in enumerate(_COLOURS):
        # One path for each colour keeps the file small.
        path = []
        for index, second in enumerate(report.seconds):
            base = _BOTTOM - sum(second[:layer]) * scale
            if second[layer]:
                height = second[layer] * scale
                path.append(f"M{_LEFT + index * bar:.1f} {base:.1f}v{-height:.1f}h{bar:.2f}v{height:.1f}z")
        parts.append(f'<path fill="{colour}" d="{"".join(path)}"/>')
        x = _LEFT + layer * 150
        parts.append(f'<rect x="{x}" y="6" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 15}" y="15">{escape(name)}</text>')
    seconds = len(report.seconds)
    step = max(1, seconds // 10)
    for instant in range(0, seconds, step):
        parts.append(f'<text x="{_LEFT + instant * bar:.0f}" y="{_BOTTOM + 15}">{instant}</text>')
    parts.append(f'<text x="{_WIDTH - 60}" y="{_HEIGHT - 4}">seconds</text>')
    for share in (0.0, 0.5, 1.0):
        y = _BOTTOM - share * highest * scale
        parts.append(f'<text x="2" y="{y + 4:.0f}">{round(share * highest)}</text>')
    parts.append(f'<text x="2" y="{_HEIGHT - 4}">emissions in each second</text></svg>')
    return "\n".join(parts) + "\n"
