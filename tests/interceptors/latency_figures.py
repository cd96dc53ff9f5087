"""``python -m tests.interceptors.latency_figures``: what a question to each shipped interceptor takes.

Each interceptor of the shipped fleet runs in a worker process of its own, over a real server, as its fleet
configures it; one question is asked at a time. A classifier has an endpoint on this machine that answers at once.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final
from unittest.mock import patch

import anyio
import anyio.to_thread
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import Progress

from hookbus import Failure, QuestionFailed, envelope
from hookbus.server import EmbeddedServer
from hookbus_client.bench.results import Machine, machine, now, percentile
from hookbus_interceptors.content import Content, ContentConfiguration
from hookbus_interceptors.fleet.plan import InterceptorPlan, read_fleet, worker_command
from tests.interceptors.measured_contexts import POINTS, SIZES, context_of
from tests.interceptors.moderation_endpoint import Endpoint, moderating
from tests.worker.asking import Asker
from tests.worker.processes import ROOT, WorkerProcess

FLEET: Final = ROOT / "deploy" / "fleet.toml"
PAGE: Final = ROOT / "docs" / "interceptors" / "latency.md"
#: Between these two lines of the page its table stands.
BEGIN: Final = "<!-- table: python -m tests.interceptors.latency_figures -->\n"
END: Final = "<!-- end of table -->\n"
#: Names the address of the endpoint for workers.
MODERATION_URL: Final = "TEST_MODERATION_URL"
WARM_UP: Final = 5
LEAST: Final = 20


class LocalContent(Content):
    """``content`` as the fleet configures it, with the endpoint that ``TEST_MODERATION_URL`` names."""

    def __init__(self, configuration: ContentConfiguration) -> None:
        local = {"url": os.environ[MODERATION_URL], "key_file": None, "key_variable": None, "ca_file": None}
        super().__init__(configuration.model_copy(update=local))


_IN_PLACE_OF: Final = {"hookbus_interceptors.content:Content": "tests.interceptors.latency_figures:LocalContent"}


@dataclass(frozen=True, slots=True)
class Shipped:
    """An interceptor of a fleet."""

    name: str
    fleet: Path
    plan: InterceptorPlan

    @property
    def runs_here(self) -> bool:
        """Whether the environment that it needs is there."""
        return self.plan.python is None or (self.fleet.parent / self.plan.python).exists()


class FleetWorker(WorkerProcess):
    """A worker process as ``hookbus up`` would start it."""

    def __init__(self, shipped: Shipped, url: str, tenant: str) -> None:
        target = _IN_PLACE_OF.get(shipped.plan.target, shipped.plan.target)
        super().__init__(target, shipped.name, url=url, tenant=tenant)
        plan = shipped.plan.model_copy(update={"target": target})
        self._command = worker_command(shipped.fleet, shipped.name, plan, url=url, tenant=tenant)


@dataclass(slots=True)
class Cell:
    """The questions of one size: what each took from asking to its answer, and what the interceptor took of it."""

    question_ms: list[float] = field(default_factory=list)
    itself_ms: list[float] = field(default_factory=list)
    decisions: Counter[str] = field(default_factory=Counter)


#: By interceptor and point, and there by size.
Figures = dict[tuple[str, str], dict[str, Cell]]


def shipped_in(fleet: Path = FLEET) -> dict[str, Shipped]:
    """Return every interceptor of *fleet* by its name."""
    return {name: Shipped(name, fleet, plan) for name, plan in read_fleet(fleet).interceptors.items()}


async def measure(shipped: Mapping[str, Shipped], *, most: int, cell_s: float, progress: Progress) -> Figures:
    """Ask each of *shipped* at each point where it answers, *most* questions of each size.

    After *cell_s* seconds no more of them are asked, but at least twenty are, or *most*.
    """
    figures: Figures = {}
    numbers = iter(range(10**9))
    task = progress.add_task("starts", total=len(shipped) * len(POINTS) * len(SIZES))
    with EmbeddedServer(jetstream=True) as server:
        async with moderating() as endpoint, Asker(server.url) as asker:
            with patch.dict(os.environ, {MODERATION_URL: endpoint.url}):
                for name, each in shipped.items():
                    worker = FleetWorker(each, server.url, asker.tenant)
                    # In a thread: the endpoint is on this loop, which must stay free.
                    await anyio.to_thread.run_sync(worker.__enter__)
                    try:
                        for point in POINTS:
                            for size in SIZES:
                                progress.update(task, description=f"{name} {point} {size}", advance=1)
                                if await _answers(asker, name, point, next(numbers)):
                                    cell = figures.setdefault((name, point), {}).setdefault(size, Cell())
                                    await _fill(cell, asker, name, point, SIZES[size], numbers, most, cell_s)
                                _forget(endpoint)
                    finally:
                        await anyio.to_thread.run_sync(worker.__exit__, None, None, None)
    return figures


async def _answers(asker: Asker, name: str, point: str, number: int) -> bool:
    try:
        await asker.bus.interceptor(name).intercept(context_of(point, 1024, number))
    except QuestionFailed as failed:
        if failed.failure is Failure.ABSENT:
            return False
        raise
    return True


async def _fill(
    cell: Cell,
    asker: Asker,
    name: str,
    point: str,
    size_bytes: int,
    numbers: Iterator[int],
    most: int,
    cell_s: float,
) -> None:
    until_s = time.monotonic() + cell_s
    for asked in range(WARM_UP + most):
        body = json.dumps(context_of(point, size_bytes, next(numbers))).encode()
        began_s = time.perf_counter()
        answer = await asker.ask(body, interceptor=name, point=point)
        took_s = time.perf_counter() - began_s
        if answer.error != (None, None):
            raise RuntimeError(f"{name} failed at {point}: {answer.error}")
        if asked >= WARM_UP:
            cell.question_ms.append(took_s * 1000)
            cell.itself_ms.append(int(answer.headers[envelope.ELAPSED_US]) / 1000)
            cell.decisions[answer.verdict["decision"]] += 1
        if asked >= WARM_UP + LEAST and time.monotonic() > until_s:
            return


def _forget(endpoint: Endpoint) -> None:
    endpoint.asked.clear()
    endpoint.bodies.clear()
    endpoint.headers.clear()


def table_of(figures: Figures) -> str:
    """Return the table in Markdown; times are milliseconds, p50 / p99."""
    heads = ["interceptor", "point", *(f"{size}: {what}" for size in SIZES for what in ("question", "itself"))]
    rows = [_row([*heads, "verdicts"]), _row(["---", "---", *["---:"] * (len(heads) - 2), "---"])]
    for (name, point), cells in sorted(figures.items()):
        times = [_shown(times) for cell in cells.values() for times in (cell.question_ms, cell.itself_ms)]
        decisions: Counter[str] = sum((cell.decisions for cell in cells.values()), Counter())
        told = ", ".join(f"{count} {decision}" for decision, count in decisions.most_common())
        rows.append(_row([name, f"`{point}`", *times, told]))
    return "\n".join(rows) + "\n"


def _shown(times_ms: list[float]) -> str:
    ordered = sorted(times_ms)
    return f"{percentile(ordered, 50):.2f} / {percentile(ordered, 99):.2f}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write_page(page: Path, here: Machine, table: str, unmeasured: list[str]) -> None:
    """Put *table* into *page*, with where and when it was made."""
    made = (
        f"{now()}: {here.processor}, {here.cores} cores, {here.system}, {here.python}, nats-server "
        f"{here.nats_server}; the load average when the run began was {here.load}.\n"
    )
    if unmeasured:
        made += f"\nNot measured, as the environment that they run in was not there: {', '.join(unmeasured)}.\n"
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{made}\n{table}\n{END}{rest.partition(END)[2]}", "utf-8")


def main(
    most: Annotated[int, typer.Option(min=1, help="Questions of each size at each point.")] = 300,
    cell_s: Annotated[float, typer.Option(help="Seconds after which no more are asked.")] = 1.0,
    only: Annotated[str, typer.Option(help="Only the interceptor of this name; nothing is written.")] = "",
    page: Annotated[Path, typer.Option(help="The page whose table is written anew.")] = PAGE,
) -> None:
    """Measure every interceptor of the shipped fleet, print the table and write it into its page."""
    every = shipped_in()
    chosen = {name: each for name, each in every.items() if each.runs_here and only in ("", name)}
    console, here = Console(width=160), machine()
    with Progress(console=console) as progress:

        async def run() -> Figures:
            return await measure(chosen, most=most, cell_s=cell_s, progress=progress)

        table = table_of(anyio.run(run))
    console.print(Markdown(table))
    if not only:
        write_page(page, here, table, sorted(name for name, each in every.items() if not each.runs_here))


if __name__ == "__main__":
    # By its own name, which the workers import.
    typer.run(main)
