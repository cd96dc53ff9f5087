"""``hookbus replay``: keys for capturing, and what a candidate would have decided of what was captured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer
from agent_hooks import InterceptionPoint
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import hookbus
from hookbus.authority.keys import write_private, write_public
from hookbus_interceptors.capture.errors import KeyInvalid
from hookbus_interceptors.capture.reading import Captured
from hookbus_interceptors.capture.sealing import needs_passphrase, new_pair, read_private
from hookbus_interceptors.replay.asking import Compared, Replay, Terms
from hookbus_interceptors.replay.report import Report
from hookbus_interceptors.replay.sessions import Selection, Sessions

app = typer.Typer(help="Ask a candidate what agents really asked.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--captured", help="The folder that the capture workers write.")]
Key = Annotated[Path, typer.Option("--key", help="The private key that keygen wrote.")]


@app.callback()
def replay() -> None:
    """Ask a candidate what agents really asked."""


@app.command()
def keygen(
    key: Annotated[Path, typer.Option(help="Where the private key goes; stays with who replays.")] = Path(
        "replay.key"
    ),
    public: Annotated[Path, typer.Option(help="Where the public key goes; for the capture workers.")] = Path(
        "capture.pub"
    ),
    passphrase: Annotated[bool, typer.Option(help="Ask for a passphrase that the private key needs.")] = False,
) -> None:
    """Write a new pair of keys. An existing private key is never replaced."""
    words = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True) if passphrase else None
    private_pem, public_pem = new_pair(words)
    try:
        write_private(key, private_pem)
    except FileExistsError:
        raise typer.BadParameter(f"{key} is there already", param_hint="--key") from None
    write_public(public, public_pem)
    typer.echo(f"private key: {key}\npublic key:  {public}")


@app.command()
def run(
    captured: Folder,
    key: Key,
    candidate: Annotated[str, typer.Option(help="The interceptor that is to be tried.")],
    current: Annotated[str, typer.Option(help="The interceptor that decides now.")],
    point: Annotated[
        list[InterceptionPoint] | None, typer.Option(help="A point to replay; repeat it. [default: all]")
    ] = None,
    sessions: Annotated[float, typer.Option(min=0, max=1, help="The share of sessions to replay.")] = 1.0,
    agent: Annotated[str, typer.Option(help="The agent that asks.")] = "replay",
    as_captured: Annotated[
        bool, typer.Option("--as-captured", help="Ask as the agent that asked then; needs its credentials.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 8,
    timeout_s: Annotated[float, typer.Option(min=0.001, help="How long an answer is waited for.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print every difference as JSON.")] = False,
    allow_flips: Annotated[bool, typer.Option("--allow-flips", help="Exit with 0 in spite of flips.")] = False,
    url: Annotated[str | None, typer.Option(help="NATS servers, with commas. [env: HOOKBUS_URL]")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant. [env: HOOKBUS_TENANT]")] = None,
    creds: Annotated[Path | None, typer.Option(help="A credentials file. [env: HOOKBUS_CREDS]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings. [env: HOOKBUS_CONFIG]")] = None,
) -> None:
    """Ask both interceptors about what was captured and report every flip.

    The exit status is 1 when there are flips, when an answer is missing, when the folder was tampered with and
    when there was nothing to compare; 0 otherwise. No payload is printed; `hookbus replay show` shows a record.
    """
    if candidate == current:
        raise typer.BadParameter("it is the current one", param_hint="--candidate")
    opened = _opened(captured, key)
    terms = Terms(current, candidate, None if as_captured else agent, concurrency, timeout_s)
    found = Sessions(opened, Selection(frozenset(point) if point else None, sessions))
    report = Report(terms, opened.findings, found.repeated)
    bus = hookbus.connect(url, tenant=tenant, creds=creds, config=config, name="hookbus replay")
    asking = Replay(bus, opened, terms)
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = Console(stderr=True)
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=len(found))

        def note(compared: Compared) -> None:
            report.add(compared)
            progress.advance(task)

        anyio.run(_run, bus, asking, found, note)
    if as_json:
        typer.echo(json.dumps(report.to_wire(asking.policies), indent=2))
    else:
        report.print(Console(), asking.policies)
    raise typer.Exit(0 if report.passes(allow_flips=allow_flips) else 1)


@app.command()
def show(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record, as a report names it.")],
    captured: Folder,
    key: Key,
) -> None:
    """Print one captured context. It is payload."""
    # ASCII: what an agent once read must not steer the terminal.
    typer.echo(json.dumps(_opened(captured, key).find(record).context, indent=2, ensure_ascii=True))


async def _run(
    bus: hookbus.Connection, asking: Replay, sessions: Sessions, note: Callable[[Compared], None]
) -> None:
    async with bus:
        await asking.run(sessions, note)


def _opened(folder: Path, key: Path) -> Captured:
    try:
        pem = key.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"it cannot be read ({type(error).__name__})", param_hint="--key") from None
    words = typer.prompt("Passphrase", hide_input=True, err=True) if needs_passphrase(pem) else None
    try:
        return Captured(folder, read_private(pem, words))
    except KeyInvalid as error:
        raise typer.BadParameter(str(error), param_hint="--key") from None
