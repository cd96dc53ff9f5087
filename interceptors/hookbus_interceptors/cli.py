"""``hookbus worker``: run an interceptor as a worker process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer
from rich.console import Console

import hookbus
from hookbus_interceptors.loading import configured, load
from hookbus_interceptors.worker import Worker

#: What the interceptor's own threads and atexit handlers may take once the worker has ended.
EXIT_GRACE_S: Final = 2.0

app = typer.Typer(help="Run interceptors as worker processes.", no_args_is_help=True)


@app.callback()
def worker() -> None:
    """Run interceptors as worker processes."""


@app.command()
def run(
    target: Annotated[str, typer.Argument(metavar="MODULE:ATTR", help="A function, an object or a class.")],
    name: Annotated[str, typer.Option(help="The interceptor's name, which agents ask by.")],
    point: Annotated[list[str] | None, typer.Option(help="A point to serve; repeat it. [default: all]")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Questions at a time; one more is busy.")] = 64,
    interceptor_config: Annotated[
        Path | None, typer.Option(help="The interceptor's own TOML file, reloaded whenever it changes.")
    ] = None,
    table: Annotated[str, typer.Option(help="The table of that file, dotted. [default: all of it]")] = "",
    policy_version: Annotated[str | None, typer.Option(help="Shown on every answer.")] = None,
    skew_ms: Annotated[int, typer.Option(min=0, help="How far agents' clocks may be behind.")] = 0,
    url: Annotated[str | None, typer.Option(help="NATS servers, with commas. [env: HOOKBUS_URL]")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant. [env: HOOKBUS_TENANT]")] = None,
    creds: Annotated[Path | None, typer.Option(help="A credentials file. [env: HOOKBUS_CREDS]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings. [env: HOOKBUS_CONFIG]")] = None,
) -> None:
    """Answer questions until SIGTERM or Ctrl-C, which lose no answer; a second one ends at once.

    Prints a line that begins with "ready" on stdout once it serves. The exit status is 0 after a drain and 1 when
    the worker could not serve or could not go on.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    interceptor = load(target)
    if interceptor_config is not None:
        interceptor = configured(interceptor, interceptor_config, table)
    bus = hookbus.connect(url, tenant=tenant, creds=creds, config=config, name=f"hookbus worker {name}")
    try:
        made = Worker(
            bus,
            interceptor,
            name=name,
            points=point or (),
            concurrency=concurrency,
            policy=policy_version,
            skew_allowance_s=skew_ms / 1000,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.Exit(asyncio.run(_serve(made, bus)))


async def _serve(worker: Worker, bus: hookbus.Connection) -> int:
    _drain_on_signals(worker)
    status = 1
    try:
        async with bus, worker:
            print(f"ready: {worker.name}, worker {worker.id}, on {' '.join(worker.subjects)}", flush=True)
            await worker.drained()
            # Whoever read this may have gone; that is no reason to lose an answer.
            with contextlib.suppress(BrokenPipeError):
                print("draining", flush=True)
        status = 0
    except hookbus.HookbusError as error:
        Console(stderr=True).print(f"hookbus: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    finally:
        # A thread or a task of the interceptor's own making may hang, and asyncio and the interpreter wait for
        # both. They are waited for this long and no longer.
        threading.Thread(target=_exit_later, args=(status,), daemon=True).start()
    return status


def _exit_later(status: int) -> None:
    threading.Event().wait(EXIT_GRACE_S)
    os._exit(status)


def _drain_on_signals(worker: Worker) -> None:
    """Drain at the first SIGTERM or SIGINT; end at once at the second, whatever the loop is doing."""
    loop = asyncio.get_running_loop()
    told = False

    def tell(number: int, _frame: FrameType | None) -> None:
        nonlocal told
        if told:
            os._exit(128 + number)
        told = True
        loop.call_soon_threadsafe(worker.drain)

    # Not the loop's own handlers: those wait their turn behind a coroutine that holds the loop.
    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
