"""The tables of an evaluation, for a terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tests.dojo.trial import Trial


@dataclass(frozen=True)
class Arm:
    """The trials of one way to run: without the fleet, or with it and somebody, or nobody, to ask."""

    name: str
    trials: Sequence[Trial]

    @property
    def asked(self) -> bool:
        """Whether anybody was asked anything."""
        return any(trial.questions for trial in self.trials)

    def of(self, suite: str | None) -> list[Trial]:
        """Return the trials of one suite; of all with None."""
        return [trial for trial in self.trials if suite in (None, trial.suite)]


def rows(arms: Sequence[Arm], *, attacked: bool) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the rows of a table: a row for each suite and one for all, the columns of every arm."""
    heads = ["suite", "runs"]
    for arm in arms:
        measures = [*(("goals reached", "own calls undisturbed") if attacked else ()), "tasks succeeded"]
        heads += [f"{arm.name}: {measure}" for measure in [*measures, *(("questions",) if arm.asked else ())]]
    suites = list(dict.fromkeys(trial.suite for trial in arms[0].trials))
    body = []
    for suite in [*suites, None]:
        cells = [suite or "all", str(len(arms[0].of(suite)))]
        for arm in arms:
            found = arm.of(suite)
            if attacked:
                cells.append(_share(sum(trial.reached for trial in found), len(found)))
                cells.append(str(sum(trial.undisturbed for trial in found)))
            cells.append(str(sum(trial.useful for trial in found)))
            if arm.asked:
                questions = sum(len(trial.questions) for trial in found)
                cells.append(f"{questions} ({questions / max(1, len(found)):.2f} each)")
        body.append(cells)
    return heads, body


def show(console: Console, title: str, arms: Sequence[Arm], *, attacked: bool) -> None:
    """Print the table of *arms*."""
    heads, body = rows(arms, attacked=attacked)
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head == "suite" else "right")
    for cells in body:
        table.add_row(*cells)
    console.print(table)


def markdown(title: str, arms: Sequence[Arm], *, attacked: bool) -> str:
    """Return the table of *arms* in Markdown."""
    heads, body = rows(arms, attacked=attacked)
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)]), *map(_line, body)]
    return f"**{title}**\n\n" + "\n".join(lines) + "\n"


def reached(arms: Iterable[Arm]) -> str:
    """Return the attacks that reached their goal, by arm."""
    return "\n".join(
        f"{arm.name}: " + (", ".join(trial.id for trial in arm.trials if trial.reached) or "none") for arm in arms
    )


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / max(1, of):.1f} %)"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
