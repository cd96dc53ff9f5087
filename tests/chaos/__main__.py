"""The soak as a command: ``python -m tests.chaos --seed 7 --emissions 100000``."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tests.chaos.document import write_document
from tests.chaos.plan import Plan, make_plan
from tests.chaos.report import Report
from tests.chaos.soak import Soak, Stage

console = Console()


def main(
    seed: Annotated[int, typer.Option(help="The same seed plans the same faults.")] = 1,
    emissions: Annotated[int, typer.Option(min=1, help="How many at least.")] = 100_000,
    json: Annotated[Path | None, typer.Option(help="Write every figure to this file.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Write chaos.md and chaos.svg to this folder.")] = None,
) -> None:
    """Let agents emit while everything around them fails; fail when one permit, record or deadline is wrong."""
    # What is lost and found again is the point here; the report counts it.
    logging.getLogger("hookbus").setLevel(logging.ERROR)
    plan = make_plan(seed, emissions)
    console.print(f"seed {seed}: {len(plan.faults)} faults over {emissions:,} emissions")
    for fault in plan.faults:
        extent = f"{fault.lasts} emissions, {fault.share:.0%}"
        console.print(f"  from {fault.begins:>7,}  {fault.kind:<18} {fault.target:<12} {extent}", highlight=False)
    report = asyncio.run(_run(plan))
    console.print(report.show())
    for line in report.told:
        console.print(line, style="red", markup=False)
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if docs is not None:
        write_document(report, docs)
    for shortcoming in report.shortcomings:
        console.print(shortcoming, style="bold red", markup=False)
    raise typer.Exit(1 if report.shortcomings else 0)


async def _run(plan: Plan) -> Report:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task("starting", total=plan.emissions)
        async with Stage() as stage:
            soak = Soak(stage, plan)
            showing = asyncio.create_task(_show(soak, progress, shown))
            try:
                return await soak.run()
            finally:
                showing.cancel()


async def _show(soak: Soak, progress: Progress, shown: TaskID) -> None:
    while True:
        now = ", ".join(o.fault.kind for o in soak.causes.all[-20:] if o.ended_s is None) or "nothing wrong"
        progress.update(shown, completed=soak.odometer.count, description=f"{now:<34}"[:34])
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    typer.run(main)
