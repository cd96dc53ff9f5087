"""``python -m tests.fuzz --cases 1000000 --seed 1``: many cases, each repeatable by seed, target and number."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from random import Random
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

#: What one case may take before it counts as a hang.
HANGS_AFTER_S: Final = 60.0
#: Failures are told one by one up to this many.
MOST_TOLD: Final = 20


def main(
    cases: Annotated[
        int, typer.Option(min=1, help="How many in all, divided by each target's share.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same cases.")] = 1,
    only: Annotated[str | None, typer.Option(help=f"One target of {', '.join(TARGETS)}.")] = None,
    number: Annotated[
        int | None, typer.Option(min=0, help="One case of that target, as a failure names it.")
    ] = None,
) -> None:
    """Bend what comes in from outside, and check that nothing crashes, hangs or permits."""
    logging.disable(logging.CRITICAL)
    chosen = {name: TARGETS[name] for name in TARGETS if only in (None, name)}
    if not chosen or (number is not None and only is None):
        raise typer.BadParameter("--only names a target, and --number needs --only")
    shares = sum(share for _, share in chosen.values())
    console = Console(width=140)
    report = Table("target", "cases", "failures", "s", "came to")
    failures = 0
    for name, (make, share) in chosen.items():
        numbers = range(cases * share // shares) if number is None else range(number, number + 1)
        began_s = time.monotonic()
        came_to, failed = asyncio.run(_run(make(), seed, numbers, console))
        failures += failed
        told = ", ".join(f"{word} {times}" for word, times in came_to.most_common())
        report.add_row(name, str(len(numbers)), str(failed), f"{time.monotonic() - began_s:.0f}", told)
    console.print(f"seed {seed}")
    console.print(report)
    sys.exit(1 if failures else 0)


async def _run(target: Target, seed: int, numbers: range, console: Console) -> tuple[Counter[str], int]:
    came_to: Counter[str] = Counter()
    failures = 0
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    async with target:
        with Progress(*columns, console=console, refresh_per_second=1) as progress:
            task = progress.add_task(target.name, total=len(numbers))
            for number in numbers:
                case = target.case(Random(f"{seed}/{target.name}/{number}"))
                try:
                    async with asyncio.timeout(HANGS_AFTER_S):
                        came_to[await target.check(case)] += 1
                except Exception as error:
                    failures += 1
                    if failures <= MOST_TOLD:
                        console.print(f"--seed {seed} --only {target.name} --number {number}: {error!r}"[:500])
                progress.advance(task)
                if number % 10_000 == 9_999 and not console.is_terminal:
                    console.print(f"{target.name}: {number + 1} cases, {failures} failures")
    return came_to, failures


if __name__ == "__main__":
    typer.run(main)
