"""Hedging: two workers of a group, one of them stopped. How many questions are lost?

python -m tests.chaos.hedging
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Final

import typer
from agent_hooks import AgentContextBuilder
from rich.console import Console
from rich.table import Table

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from tests.chaos.document import put_section
from tests.worker.processes import WorkerProcess

TIMEOUT_S: Final = 1.0
HEDGE_AFTER_S: Final = 0.05
LANES: Final = 20
#: The share of questions that may be lost with hedges.
ALLOWED: Final = 0.01


async def lost(url: str, questions: int, *, hedge_after_s: float | None) -> int:
    """Ask so many *questions* of two workers, one of which is stopped; return how many were denied.

    The breaker is kept out of it: what is counted is what silence alone costs.
    """
    worker = "tests.worker.interceptors:AllowInTask"
    with WorkerProcess(worker, "policy", url=url) as stopped, WorkerProcess(worker, "policy", url=url):
        async with hookbus.connect(url, breaker_opens_after=1_000_000) as bus:
            remote = bus.interceptor("policy", hedge_after_s=hedge_after_s)
            emitter = BusEmitter(timeout=TIMEOUT_S).register(remote)
            builder = AgentContextBuilder(agent_id="caller", framework="chaos", session_id="hedging")
            denied = 0

            async def ask(count: int) -> None:
                nonlocal denied
                for _ in range(count):
                    record = await emitter.emit_unchecked(builder.pre_tool_call(call_id="c", name="t", args={}))
                    denied += not record.proceeds

            # Both serve, and one stops while questions are on their way.
            await ask(20)
            denied = 0
            async with asyncio.TaskGroup() as asking:
                for _ in range(LANES):
                    asking.create_task(ask(questions // LANES))
                stopped.signal(signal.SIGSTOP)
            return denied


async def measure(questions: int) -> list[tuple[str, str, str]]:
    """Return one row for no hedges and one with them."""
    rows = []
    with EmbeddedServer() as server:
        for name, hedge_after_s in (
            ("without hedges", None),
            (f"hedged after {HEDGE_AFTER_S * 1000:g} ms", HEDGE_AFTER_S),
        ):
            count = await lost(server.url, questions, hedge_after_s=hedge_after_s)
            rows.append((name, f"{count:,} of {questions:,}", f"{count / questions:.1%}"))
    return rows


def main(
    questions: Annotated[int, typer.Option(min=LANES)] = 2_000,
    docs: Annotated[Path | None, typer.Option(help="Write the table to chaos.md of this folder.")] = None,
) -> None:
    """Count the questions that are lost while one of two workers is stopped."""
    header = ("one of two workers stopped", "lost", "share")
    rows = asyncio.run(measure(questions))
    table = Table(*header)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if docs is not None:
        put_section(docs, "hedging", [header, *rows])


if __name__ == "__main__":
    typer.run(main)
