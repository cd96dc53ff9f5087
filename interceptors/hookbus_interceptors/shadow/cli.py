"""``hookbus shadow``: how the candidates of a fleet do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import anyio
import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import hookbus
from hookbus.authority.roles import Role, inbox
from hookbus.subjects import token
from hookbus_interceptors.shadow.comparison import FAILURES, Said
from hookbus_interceptors.shadow.configuration import Stage
from hookbus_interceptors.shadow.counts import AGREED, CANDIDATE, CURRENT, DISAGREED, SKIPPED
from hookbus_interceptors.shadow.report import Progress, WorkerStats, ask_workers, summed

app = typer.Typer(help="See how candidates do beside the interceptors that decide.", no_args_is_help=True)


class TooFewWorkers(hookbus.HookbusError):
    """Of ``expected`` workers only ``heard`` answered, so the counts would be too low."""

    def __init__(self, heard: int, expected: int) -> None:
        self.heard = heard
        self.expected = expected
        super().__init__(f"{heard} of {expected} workers answered; wait longer (--wait-s), or look for the others")


@app.callback()
def shadow() -> None:
    """See how candidates do beside the interceptors that decide."""


@app.command()
def report(
    interceptor: Annotated[str | None, typer.Argument(help="Its name. [default: every one]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of tables.")] = False,
    wait_s: Annotated[float, typer.Option(min=0.01, help="How long to wait for the workers' answers.")] = 1.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many workers there are: wait no longer, and fail with fewer.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Whose credentials these are, where `hookbus auth` made them.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="NATS servers, with commas. [env: HOOKBUS_URL]")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant. [env: HOOKBUS_TENANT]")] = None,
    creds: Annotated[Path | None, typer.Option(help="A credentials file. [env: HOOKBUS_CREDS]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings. [env: HOOKBUS_CONFIG]")] = None,
) -> None:
    """Show what the workers have counted since they started: how often the two agreed, and in what they differ."""

    async def ask() -> list[WorkerStats]:
        async with hookbus.connect(url, tenant=tenant, creds=creds, config=config, name="hookbus shadow") as bus:
            return await ask_workers(
                bus,
                None if interceptor is None else token(interceptor),
                inbox="_INBOX" if operator is None else inbox(Role.OPERATOR, operator),
                wait_s=wait_s,
                expected=workers,
            )

    heard = anyio.run(ask)
    if workers is not None and len(heard) < workers:
        raise TooFewWorkers(len(heard), workers)
    trials = summed(heard)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(trials)).decode())
    else:
        show(Console(), trials)


def show(console: Console, trials: Sequence[Progress]) -> None:
    """Print how each of *trials* goes: what was counted, and the disagreements where there are any."""
    if not trials:
        console.print("No worker that answered has a candidate.")
    for trial in trials:
        phase = trial.phase
        stage = phase.stage if phase.stage == Stage.ALL else f"{phase.stage} {phase.share:.2%}"
        console.print(Text(f"{trial.interceptor}: {stage}, workers: {trial.workers}", "bold"))
        console.print(Text(f"current {phase.current}, candidate {phase.candidate}"))
        console.print(_counts(trial))
        if trial.disagreements or trial.others:
            console.print(_disagreements(trial))


def _counts(trial: Progress) -> Table:
    table = Table()
    for name in ("questions", "by candidate", "agreed", "disagreed", "failed", "skipped"):
        table.add_column(name, justify="right")
    count = Counter(trial.counts)
    questions, failed = count[CURRENT] + count[CANDIDATE], sum(count[what] for what in FAILURES)
    shown = questions, count[CANDIDATE], count[AGREED], count[DISAGREED], failed, count[SKIPPED]
    table.add_row(*map(str, shown))
    return table


def _disagreements(trial: Progress) -> Table:
    table = Table()
    for name in ("point", "differs", "current said", "candidate said"):
        table.add_column(name, overflow="fold")
    table.add_column("questions", justify="right")
    for one in trial.disagreements:
        table.add_row(Text(one.point), one.differs, _said(one.current), _said(one.candidate), str(one.count))
    if trial.others:
        table.add_row("", "", "(other kinds)", "", str(trial.others))
    return table


def _said(said: Said) -> Text:
    return Text(said.decision if said.reason is None else f"{said.decision} {said.reason}")
