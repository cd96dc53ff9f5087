"""The bench's processes: workers of every kind and one agent for each contender, started together and ended."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.abc
import msgspec
from anyio.streams.buffered import BufferedByteReceiveStream

from hookbus import HookbusError
from hookbus.authority.keys import new_user_key
from hookbus_client.bench.agent import Measured, Slice
from hookbus_client.bench.contenders import Spec
from hookbus_client.bench.conversations import AGENT
from hookbus_client.bench.plan import Contender

_GRACE_S: Final = 5.0
#: A slice's answer holds every latency.
_LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
_MODULE: Final = (sys.executable, "-m")
_HOOKBUS: Final = (sys.executable, "-c", "from hookbus.cli import main; main()")
_HOOKBUS_UVLOOP: Final = (
    sys.executable,
    "-c",
    "import uvloop; uvloop.install(); from hookbus.cli import main; main()",
)
#: What a worker takes on at a time: all that the callers of the largest case may ask.
_CONCURRENCY: Final = "4096"


class ChildFailed(HookbusError):
    """A process of the bench ended too early; ``log`` is what it wrote."""

    def __init__(self, what: str, log: str) -> None:
        self.what = what
        self.log = log
        super().__init__(f"the bench's {what} ended:\n{log.strip()}")


class Child:
    """A process that writes a line when it is ready, and one for each thing that it is asked for."""

    def __init__(self, what: str, process: anyio.abc.Process, log: IO[bytes]) -> None:
        assert process.stdout is not None
        self._what = what
        self._process = process
        self._log = log
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._first = b""
        self._asked_to_end = False

    async def ready(self) -> str:
        """Wait until it is ready and return the second word of its first line: where a worker answers."""
        self._first = self._first or await self._line()
        return self._first.decode().split()[1]

    async def _line(self) -> bytes:
        try:
            return await self._lines.receive_until(b"\n", _LONGEST_LINE_BYTES)
        except (anyio.IncompleteRead, anyio.EndOfStream):
            raise self._failed() from None

    async def measured(self, wanted: Slice) -> Measured:
        """Have an agent measure *wanted*."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(msgspec.json.encode(wanted) + b"\n")
        except anyio.BrokenResourceError:
            raise self._failed() from None
        return msgspec.json.decode(await self._line(), type=Measured)

    def end(self) -> None:
        """Ask it to end, once; whoever started it waits for that."""
        # A second signal can meet a process that has ended, and then takes its exit status from asyncio.
        if self._process.returncode is None and not self._asked_to_end:
            self._asked_to_end = True
            self._process.terminate()

    def _failed(self) -> ChildFailed:
        self._log.seek(0)
        return ChildFailed(self._what, self._log.read().decode(errors="replace"))


@asynccontextmanager
async def child(
    what: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Start *command*; on leaving it is asked to end, and killed when it has not after five seconds."""
    with tempfile.TemporaryFile() as log:
        process = await anyio.open_process(command, stderr=log, env={**os.environ, **(environment or {})})
        started = Child(what, process, log)
        try:
            yield started
        finally:
            with anyio.CancelScope(shield=True):
                started.end()
                with anyio.move_on_after(_GRACE_S):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                await process.aclose()


class Fleet:
    """The workers and agents of every contender. Everything it starts ends with *stack*."""

    def __init__(self, stack: AsyncExitStack, url: str, folder: Path) -> None:
        self._stack = stack
        self._url = url
        self._keys = _Keys(folder)
        self._children: list[Child] = []

    def end(self) -> None:
        """Ask every process to end, so that none has to wait for the end of another."""
        for started in self._children:
            started.end()

    async def workers(self, contender: Contender, interceptors: int) -> dict[str, Child]:
        """Start a worker for each of so many interceptors, by name; they may still be starting."""
        if contender in (Contender.SDK, Contender.ABSENT):
            return {}
        names = [_interceptor(contender, index) for index in range(interceptors)]
        return {name: await self._worker(contender, name) for name in names}

    async def more_slow_workers(self, number: int) -> None:
        """Start *number* more workers for the one interceptor of :attr:`Contender.SLOW`, and wait for them."""
        name = _interceptor(Contender.SLOW, 0)
        for started in [await self._worker(Contender.SLOW, name) for _ in range(number)]:
            await started.ready()

    async def agent(self, contender: Contender, workers: Mapping[str, Child]) -> Child:
        """Start the agent process of *contender*, which asks *workers*; it may still be starting."""
        addresses = {name: await worker.ready() for name, worker in workers.items()}
        if contender is Contender.ABSENT:
            addresses = {_interceptor(contender, 0): ""}
        spec = Spec(contender, self._url, addresses)
        if contender is Contender.SIGNED:
            spec = msgspec.structs.replace(spec, signing_key=self._keys.agent, trust=self._keys.trust)
        command = (*_MODULE, "hookbus_client.bench.agent", msgspec.json.encode(spec).decode())
        return await self._child(f"agent ({contender})", command)

    async def _worker(self, contender: Contender, name: str) -> Child:
        environment: dict[str, str] = {}
        if contender in (Contender.BARE, Contender.HTTP, Contender.GRPC):
            command = [*_MODULE, "hookbus_client.bench.serve", contender.value, self._url, name]
        else:
            attribute = "slow" if contender is Contender.SLOW else "allow"
            command = [*(_HOOKBUS_UVLOOP if contender is Contender.UVLOOP else _HOOKBUS)]
            command += ["worker", "run", f"hookbus_client.bench.interceptors:{attribute}"]
            command += ["--name", name, "--url", self._url, "--concurrency", _CONCURRENCY]
            if contender is Contender.SIGNED:
                environment = {"HOOKBUS_SIGNING_KEY": self._keys.worker, "HOOKBUS_TRUST": self._keys.trust}
        return await self._child(f"worker ({contender})", command, environment)

    async def _child(
        self, what: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        started = await self._stack.enter_async_context(child(what, command, environment))
        self._children.append(started)
        return started


def _interceptor(contender: Contender, index: int) -> str:
    return f"{AGENT}-{contender}-{index + 1}"


class _Keys:
    """One key for the agent, one for every worker, and the file that says so."""

    def __init__(self, folder: Path) -> None:
        (agent_seed, agent_key), (worker_seed, worker_key) = new_user_key(), new_user_key()
        self.agent = self._write(folder / "agent.nk", agent_seed)
        self.worker = self._write(folder / "worker.nk", worker_seed)
        lines = ["[agents]", f'"{AGENT}" = ["{agent_key}"]', "[workers]"]
        lines += [f'"{_interceptor(Contender.SIGNED, index)}" = ["{worker_key}"]' for index in range(8)]
        self.trust = self._write(folder / "trust.toml", "\n".join(lines).encode())

    @staticmethod
    def _write(path: Path, content: bytes) -> str:
        path.write_bytes(content)
        return str(path)
