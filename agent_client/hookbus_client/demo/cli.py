"""``hookbus demo``: the whole bus on this machine, in a few seconds."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec

import anyio
import typer
from rich.console import Console

from hookbus import HookbusError

# Every `hookbus` command loads this module, also a worker's: the client library, which takes most of a second to
# import, is looked for here and imported when the demo runs.
if find_spec("openai") is None:
    raise ModuleNotFoundError("the demo needs the openai package", name="openai")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def demo() -> None:
    """Watch a travel agent meet a policy and a redactor, and silence deny. Ends by itself."""
    from hookbus_client.agent import AgentError

    # The demo is a world of its own: settings meant for a real bus would break it apart.
    for name in [name for name in os.environ if name.startswith("HOOKBUS_")]:
        del os.environ[name]
    failures: list[BaseException] = []
    finished = False
    try:
        finished = anyio.run(_tell_until_terminated)
    except* (AgentError, HookbusError) as group:
        failures.extend(_leaves(group))
    for failure in failures:
        typer.echo(f"hookbus demo: {failure}", err=True)
    if failures:
        raise typer.Exit(1)
    if not finished:
        raise typer.Exit(128 + signal.SIGTERM)


async def _tell_until_terminated() -> bool:
    """Tell the story; on SIGTERM end it early, with every process it started, and return False."""
    from hookbus_client.demo.story import tell
    from hookbus_client.demo.view import View

    finished = False
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_signal, signals, group.cancel_scope)
            await tell(View(Console(highlight=False)))
            finished = True
            group.cancel_scope.cancel()
    return finished


async def _cancel_on_signal(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
