"""The ``hookbus`` command. What the workers' and the agents' packages add to it is found by entry point."""

from __future__ import annotations

import importlib.metadata
import os
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hookbus.errors import HookbusError
from hookbus.server import EmbeddedServer, binary

app = typer.Typer(
    name="hookbus",
    help="Agents ask, interceptor workers answer, silence denies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def server(
    port: Annotated[int, typer.Option(help="The port for clients.")] = 4222,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    jetstream: Annotated[bool, typer.Option(help="With JetStream, its files in a temporary folder.")] = False,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file, such as `hookbus auth init` writes.")
    ] = None,
) -> None:
    """Run a NATS server on this machine until it is interrupted."""
    if config is not None:
        # The file says all: the server takes this process's place, with its signals and its exit status.
        os.execv(binary(), [binary(), "--config", str(config)])
    # SIGTERM like Ctrl-C, which a shell makes its background jobs ignore: the server is this process's child and
    # must not outlive it.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        with EmbeddedServer(host=host, port=port, jetstream=jetstream) as running:
            Console(stderr=True).print(f"NATS server ready at [bold]{running.url}[/]; Ctrl-C ends it")
            raise typer.Exit(running.wait())
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


@app.command()
def version() -> None:
    """Print the versions of hookbus and of the contract it speaks."""
    typer.echo(f"hookbus {importlib.metadata.version('hookbus')}, contract version 1")


def main() -> None:
    """Run the command; an error of ours becomes one line and exit status 1."""
    for entry in sorted(importlib.metadata.entry_points(group="hookbus.commands"), key=lambda e: e.name):
        try:
            command = entry.load()
        except ImportError as missing:
            # An extra that is not installed takes away its own command and nothing else.
            _add_missing(entry.name, missing.name or "a package")
        else:
            app.add_typer(command, name=entry.name)
    try:
        app()
    except HookbusError as error:
        Console(stderr=True).print(f"hookbus: {error}", style="red", markup=False, highlight=False)
        raise SystemExit(1) from None


def _add_missing(name: str, package: str) -> None:
    @app.command(name, help=f"(not available: {package} is not installed)")
    def missing() -> None:
        typer.echo(f"`hookbus {name}` needs {package}: pip install 'hookbus[{name}]'", err=True)
        raise typer.Exit(1)
