"""The demo's workers: each interceptor in a process of its own, started, killed, cleaned up."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc
from agent_hooks import AgentContextBuilder
from anyio.streams.buffered import BufferedByteReceiveStream

from hookbus import Connection, Failure, HookbusError, QuestionFailed

_COMMAND = [sys.executable, "-c", "from hookbus.cli import main; main()", "worker", "run"]
_GRACE_S = 5.0
_POLL_S = 0.02
_PROBE_S = 0.5


class WorkerFailed(HookbusError):
    """A worker process ended before it was ready; ``log`` is what it wrote."""

    def __init__(self, name: str, log: str) -> None:
        self.name = name
        self.log = log
        super().__init__(f"the worker of {name!r} did not become ready:\n{log}")


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process that runs one interceptor."""

    name: str
    process: anyio.abc.Process

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would, and wait until it is gone."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def worker_process(name: str, target: str, *, url: str) -> AsyncIterator[WorkerProcess]:
    """Run the interceptor *target* (``package.module:attr``) as *name* on the bus at *url*, in its own process.

    Yields once it answers. On leaving it is asked to drain, and killed when it has not ended after five seconds.
    Raises :class:`WorkerFailed`.
    """
    with tempfile.TemporaryFile() as log:
        command = [*_COMMAND, target, "--name", name, "--url", url]
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=log)
        try:
            assert process.stdout is not None
            try:
                await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 64 * 1024)
            except anyio.IncompleteRead:
                log.seek(0)
                raise WorkerFailed(name, log.read().decode(errors="replace")) from None
            yield WorkerProcess(name, process)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _end(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


async def until_nobody_answers(bus: Connection, name: str) -> None:
    """Return when the server knows that nobody is subscribed for *name* any more."""
    contexts = AgentContextBuilder(agent_id="probe", framework="hookbus", session_id="probe")
    while True:
        question = contexts.pre_tool_call(call_id="probe", name="probe", args={})
        try:
            with anyio.move_on_after(_PROBE_S):
                await bus.interceptor(name).intercept(question)
        except QuestionFailed as failed:
            if failed.failure is Failure.ABSENT:
                return
        await anyio.sleep(_POLL_S)
