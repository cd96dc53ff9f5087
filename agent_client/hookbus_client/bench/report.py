"""A run's tables, for a terminal and for a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.table import Table

from hookbus_client.bench.plan import NAMES, Contender
from hookbus_client.bench.results import Results
from hookbus_client.bench.targets import outcomes

_WHAT_CAME_OF_IT: Final = {True: "met", False: "missed", None: "not measured"}
#: The others that somebody might use instead of the bus.
_ALTERNATIVES: Final = (Contender.SDK, Contender.HTTP, Contender.GRPC)


class Grid(NamedTuple):
    """A table before anything draws it; all columns but the first are numbers or short words."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def targets(runs: Sequence[Results]) -> Grid:
    """Every target: the median ratio of *runs*, and the range where there are several."""
    rows: list[tuple[str, ...]] = []
    for outcome in outcomes(runs):
        ratio = "–" if outcome.ratio is None else f"{outcome.ratio:.2f}"
        spread = f" ({min(outcome.ratios):.2f}–{max(outcome.ratios):.2f})" if len(outcome.ratios) > 1 else ""
        rows.append((outcome.target.case, ratio + spread, outcome.target.wanted, _WHAT_CAME_OF_IT[outcome.met]))
    return Grid("Ratios", ("case", "measured", "target", ""), rows)


def medians(run: Results) -> Grid:
    """The median time of one emission, a row for each case and a column for each contender."""
    present = [who for who in Contender if any(found.contender is who for found in run.figures)]
    rows = []
    for case in dict.fromkeys(found.case for found in run.figures):
        cells = [run.find(case, who) for who in present]
        rows.append((str(case), *(duration(cell.p50_us) if cell else "" for cell in cells)))
    return Grid("Time of one emission, p50", ("case", *(NAMES[who] for who in present)), rows)


def everything(run: Results) -> Grid:
    """All figures of every contender in every case."""
    head = ("case", "contender", "p50", "p90", "p99", "emissions/s", "agent's CPU", "emissions")
    rows = [
        (
            str(found.case),
            NAMES[found.contender],
            *(duration(us) for us in (found.p50_us, found.p90_us, found.p99_us)),
            f"{found.per_second:,.0f}",
            duration(found.cpu_us),
            f"{found.emissions:,}",
        )
        for found in run.figures
    ]
    return Grid("Everything", head, rows)


def losses(run: Results) -> Grid:
    """The cases in which something else was faster than the bus."""
    rows: list[tuple[str, ...]] = []
    for case in dict.fromkeys(found.case for found in run.figures):
        ours = run.find(case, Contender.BUS)
        others = [found for who in _ALTERNATIVES if (found := run.find(case, who))]
        if ours is None:
            continue
        for found in others:
            if found.p50_us < ours.p50_us:
                ratio = f"{ours.p50_us / found.p50_us:.2f} ×"
                rows.append(
                    (str(case), NAMES[found.contender], duration(found.p50_us), duration(ours.p50_us), ratio)
                )
    return Grid("Where the bus loses", ("case", "faster", "its p50", "hookbus p50", "hookbus takes"), rows)


def session(run: Results) -> str:
    """What a long session sends each interceptor, in a sentence."""
    extras = run.extras
    times = extras.session_sent_bytes / extras.session_conversation_bytes
    return (
        f"Over a session of {extras.session_turns} turns, whose conversation grows to "
        f"{extras.session_conversation_bytes / 1024:,.0f} KB, every interceptor of pre_model_call is sent "
        f"{extras.session_sent_bytes / 2**20:,.1f} MB, {times:,.0f} times the conversation."
    )


def duration(us: float) -> str:
    """Return *us* microseconds as people read them."""
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.2f} ms" if us < 10_000 else f"{us / 1000:,.0f} ms"


def as_table(grid: Grid) -> Table:
    """Return *grid* for a terminal."""
    table = Table(title=grid.title, title_justify="left", title_style="bold")
    for number, name in enumerate(grid.head):
        table.add_column(
            name, justify="right" if number else "left", no_wrap=number > 0, min_width=0 if number else 22
        )
    styles = {"met": "green", "missed": "red", "not measured": "dim"}
    for row in grid.rows:
        table.add_row(*row, style=styles.get(row[-1]))
    return table


def as_markdown(grid: Grid) -> str:
    """Return *grid* for a document."""
    lines = [grid.head, ("---", *["---:"] * (len(grid.head) - 1)), *grid.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
