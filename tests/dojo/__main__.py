"""``python -m tests.dojo``: AgentDojo through the bus and the fleet of ``deploy/dojo.toml``, and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console

from tests.dojo.attack import Attack, attacks
from tests.dojo.driver import BENCHMARK, Case, cases, stopped_clock
from tests.dojo.fleet import FLEET, fleet
from tests.dojo.report import Arm, markdown, reached, show
from tests.dojo.trial import trials

#: Between these two lines of a document its tables stand.
BEGIN, END = "<!-- tables: make dojo -->\n", "<!-- end of tables -->\n"


def main(
    attack: Annotated[
        bool, typer.Option("--attacks", help="Every pair of a user task and an injection task.")
    ] = False,
    benchmark: Annotated[str, typer.Option(help="The version whose pairs are played.")] = "v1",
    only: Annotated[str, typer.Option(help="Only what has this in its name, such as banking/.")] = "",
    every: Annotated[int, typer.Option(min=1, help="Only every so many-th.")] = 1,
    bare: Annotated[bool, typer.Option(help="Also without the fleet.")] = True,
    config: Annotated[Path, typer.Option(help="The fleet.")] = FLEET,
    document: Annotated[Path | None, typer.Option(help="A document whose tables are written anew.")] = None,
) -> None:
    """Play AgentDojo's tasks, and its attacks, and print what came of it."""
    console = Console(width=200)
    written = []
    chosen: list[tuple[str, list[Case] | list[Attack], bool]] = [
        (f"User tasks of {BENCHMARK}", [case for case in cases() if only in case.id][::every], False)
    ]
    if attack:
        pairs = [pair for pair in attacks(benchmark) if only in pair.id][::every]
        chosen.append((f"Attacks, all pairs of {benchmark}", pairs, True))
    for title, subjects, attacked in chosen:
        with stopped_clock():
            arms = anyio.run(_arms, subjects, bare, config)
        show(console, title, arms, attacked=attacked)
        written.append(markdown(title, arms, attacked=attacked))
        if attacked:
            console.print(f"Goals reached:\n{reached(arms[1 if bare else 0 :])}", highlight=False)
    if document is not None:
        before, _, rest = document.read_text().partition(BEGIN)
        document.write_text(before + BEGIN + "\n" + "\n".join(written) + "\n" + END + rest.partition(END)[2])


async def _arms(subjects: list[Case] | list[Attack], bare: bool, config: Path) -> list[Arm]:
    arms = []
    if bare:
        arms.append(Arm("no fleet", await trials(subjects, None, asking=False)))
    async with fleet(config) as running:
        arms.append(Arm("the user answers", await trials(subjects, running.emitter, asking=True)))
        arms.append(Arm("nobody answers", await trials(subjects, running.emitter, asking=False)))
    return arms


if __name__ == "__main__":
    typer.run(main)
