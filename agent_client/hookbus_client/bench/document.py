"""``docs/performance.md``: a run's tables and plot in the words of the template beside this module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from hookbus_client.bench import plot, report
from hookbus_client.bench.results import Machine, Results

#: A machine with nothing else on it when the run began.
_QUIET_LOAD: Final = 1.0
_CAUTION: Final = """
**The load average counts what ran in the minute before, an earlier run of this bench included.** If something else
ran beside it, the ratios show that the bench works and little more: who has to wake another process waits for
whoever has the processor.
"""

TEMPLATE: Final = Path(__file__).with_name("performance.template.md")


def write(runs: Sequence[Results], path: Path) -> None:
    """Write the document of *runs* to *path* and its plot beside it, as ``.svg``.

    The ratios are medians over the runs; times and the plot are those of the last one.
    """
    last = runs[-1]
    picture = path.with_suffix(".svg")
    picture.write_text(plot.svg(plot.charts(last)), "utf-8")
    losses = report.losses(last)
    text = Template(TEMPLATE.read_text("utf-8")).substitute(
        runs="one run" if len(runs) == 1 else f"{len(runs)} runs, the median of each ratio and its range",
        date=last.date,
        minutes=f"{last.lasted_s / 60:.1f}",
        machine=_machine(last.machine),
        caution=_CAUTION if last.machine.load > _QUIET_LOAD else "",
        targets=report.as_markdown(report.targets(runs)),
        picture=picture.name,
        medians=report.as_markdown(report.medians(last)),
        losses=report.as_markdown(losses) if losses.rows else "In this run, nowhere.",
        session=report.session(last),
        everything=report.as_markdown(report.everything(last)),
    )
    path.write_text(text, "utf-8")


def _machine(machine: Machine) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in machine.packages.items())
    return (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GB of memory, {machine.system}, "
        f"{machine.python}, nats-server {machine.nats_server}; {packages}. "
        f"The load average when the run began was {machine.load}."
    )
