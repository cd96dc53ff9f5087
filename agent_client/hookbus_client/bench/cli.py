"""``hookbus bench``: what a verdict over the bus costs here, against everything else one could have built."""

from __future__ import annotations

import asyncio
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from hookbus_client.bench.plan import Plan
    from hookbus_client.bench.results import Results

# Every `hookbus` command loads this module: what only the bench needs is looked for here, and imported when it
# runs.
for _name in ("aiohttp", "grpc", "httptools", "uvicorn", "uvloop"):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"the bench needs the {_name} package", name=_name)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def bench(
    quick: Annotated[bool, typer.Option(help="Only what the targets need, in less than a minute.")] = False,
    url: Annotated[str | None, typer.Option(help="NATS servers, with commas. [default: one of its own]")] = None,
    json: Annotated[Path, typer.Option(help="Where the figures go.")] = Path("hookbus-bench.json"),
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("hookbus-bench.svg"),
    document: Annotated[Path | None, typer.Option(help="Write a page about it, with a picture.")] = None,
    read: Annotated[
        list[Path] | None, typer.Option(help="Measure nothing; report a run's file. Repeat it.")
    ] = None,
    smallest: Annotated[bool, typer.Option(hidden=True, help="Everything once, as a test.")] = False,
) -> None:
    """Measure hookbus against the SDK's emitter in process, bare NATS requests, HTTP webhooks and gRPC.

    Everything runs on this machine, workers and agents in processes of their own, all contenders in turn. The
    ratios are the result: times depend on the machine. Several runs read together give the median of each ratio.
    """
    from hookbus_client.bench import document as page
    from hookbus_client.bench import plan, results
    from hookbus_client.bench import plot as pictures

    if read:
        runs = [results.read(path) for path in read]
    else:
        chosen = plan.smallest() if smallest else plan.quick() if quick else plan.full()
        runs = [_measured(chosen, url)]
        results.write(runs[0], json)
    plot.write_text(pictures.svg(pictures.charts(runs[-1])), "utf-8")
    _print(runs)
    typer.echo(f"The picture is {plot}." if read else f"The figures are in {json}, the picture is {plot}.")
    if document is not None:
        page.write(runs, document)
        typer.echo(f"The page is {document}.")


def _measured(chosen: Plan, url: str | None) -> Results:
    from hookbus_client.bench.measuring import run

    # Drawn between the slices only, so that drawing disturbs none.
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        task = progress.add_task("", total=None)

        def show(what: str, done: int, steps: int) -> None:
            progress.update(task, description=f"{what:32}", completed=done, total=steps, refresh=True)

        # SIGTERM like Ctrl-C, which a shell makes its background jobs ignore: every process that was started ends
        # with this one.
        interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
        terminate = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            return asyncio.run(run(chosen, url, show))
        finally:
            signal.signal(signal.SIGTERM, terminate)
            signal.signal(signal.SIGINT, interrupt)


def _print(runs: list[Results]) -> None:
    from hookbus_client.bench import report

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(report.as_table(report.medians(runs[-1])))
    console.print(report.as_table(report.losses(runs[-1])))
    console.print(report.as_table(report.targets(runs)))
    console.print(report.session(runs[-1]))
