"""A fleet of one file, each interceptor in a worker process of its own, and the emitter that asks all of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from agent_hooks import (
    AgentContext,
    ApprovalResolver,
    CompositionConfig,
    CompositionProfile,
    InterceptionPoint,
    Verdict,
)
from anyio.streams.buffered import BufferedByteReceiveStream

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_interceptors.loading import configured, load

FLEET = Path(__file__).parents[2] / "deploy" / "dojo.toml"
_COMMAND = [sys.executable, "-c", "from hookbus.cli import main; main()", "worker", "run"]
#: Long enough for a machine that does much else: what is measured is what is decided, not how fast.
_TIMEOUT_S = 60.0


class _Nothing:
    """Allows what no interceptor of the fleet has a say in."""

    def intercept(self, context: AgentContext, /) -> Verdict:
        return Verdict.allow()


@dataclass(frozen=True)
class Fleet:
    """Interceptors that answer on the bus, each with the points that it answers at."""

    bus: hookbus.Connection
    points: dict[str, frozenset[InterceptionPoint]]

    def emitter(self, resolver: ApprovalResolver | None) -> BusEmitter:
        """Return an emitter that asks every interceptor at once and takes the strictest verdict."""
        strictest = CompositionConfig(profile=CompositionProfile.PARALLEL_STRICTEST)
        emitter = BusEmitter(resolver=resolver, composition=strictest, timeout=_TIMEOUT_S)
        for name, points in self.points.items():
            emitter.register(self.bus.interceptor(name), at=points)
        served = frozenset[InterceptionPoint]().union(*self.points.values())
        return emitter.register(
            _Nothing(), name="nothing", at=[each for each in InterceptionPoint if each not in served]
        )


@asynccontextmanager
async def fleet(path: Path = FLEET) -> AsyncIterator[Fleet]:
    """Run the fleet that *path* describes on a server of its own; yields once every worker answers."""
    with path.open("rb") as file:
        interceptors = tomllib.load(file)["interceptors"]
    points = {
        name: configured(load(each["target"]), path, _table(name)).points  # type: ignore[attr-defined]  # all have
        for name, each in interceptors.items()
    }
    async with AsyncExitStack() as stack:
        server = stack.enter_context(EmbeddedServer())
        async with anyio.create_task_group() as starting:
            for name, each in interceptors.items():
                process = await stack.enter_async_context(_worker(path, name, each["target"], server.url))
                starting.start_soon(_until_ready, process)
        bus = await stack.enter_async_context(hookbus.connect(server.url))
        yield Fleet(bus, points)


@asynccontextmanager
async def _worker(path: Path, name: str, target: str, url: str) -> AsyncIterator[anyio.abc.Process]:
    options = ["--name", name, "--url", url, "--interceptor-config", str(path), "--table", _table(name)]
    with tempfile.TemporaryFile() as log:
        process = await anyio.open_process([*_COMMAND, target, *options], stdin=subprocess.DEVNULL, stderr=log)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.terminate()
                await process.aclose()


async def _until_ready(process: anyio.abc.Process) -> None:
    assert process.stdout is not None
    await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 64 * 1024)


def _table(name: str) -> str:
    return f"interceptors.{name}.configuration"
