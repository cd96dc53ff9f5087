"""The worker processes of a soak: started, told what to do, killed, stopped, continued and replaced."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from tests.chaos.worker import Order, Role

ROOT: Final = Path(__file__).parents[2]
#: How many processes wait for a role.
SPARES: Final = 1
#: A process that has not served by then is started again, as a service manager would.
START_S: Final = 20.0


class Spares:
    """Processes that have started and wait for their role, so that replacing a worker takes no time."""

    def __init__(self, count: int) -> None:
        self._starting = [asyncio.create_task(_begin()) for _ in range(count)]

    async def take(self) -> Process:
        """Return a process that waits for its role, and start another where none is left."""
        while len(self._starting) <= SPARES:
            self._starting.append(asyncio.create_task(_begin()))
        return await self._starting.pop(0)

    async def end(self) -> None:
        """End those that nobody took."""
        for process in await asyncio.gather(*self._starting):
            await _end(process)


async def _begin() -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaos.worker", cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _end(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal, and return when the process is gone and its pipes are closed."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()
    await process.communicate()


class WorkerProcess:
    """One place in the fleet: a process, and after it is gone the next one."""

    def __init__(self, role: Role, spares: Spares) -> None:
        self.role = role
        #: Processes that ended although nobody had ended them.
        self.deserted = 0
        self._spares = spares
        self._process: Process | None = None

    async def start(self) -> None:
        """Return when a process serves. One that cannot join the server is replaced, as by a service manager."""
        while True:
            process = await self._spares.take()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(msgspec.json.encode(self.role) + b"\n")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    if await process.stdout.readline() == b"ready\n":
                        self._process = process
                        return
            await _end(process)

    async def order(self, order: Order) -> None:
        """Tell the process how to behave, and return when it does."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            await self._process.stdout.readline()

    def stop(self) -> None:
        """Stop the process in its tracks (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a stopped process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        """End the process with SIGKILL and return when it is gone."""
        await self._end(signal.SIGKILL)

    async def drain(self) -> None:
        """End the process with SIGTERM and return when it is gone."""
        await self._end(signal.SIGTERM)

    async def replace(self) -> None:
        """Start the next process, and once it serves drain this one, as a rolling restart does."""
        old = self._process
        await self.start()
        if old is not None:
            await _end(old, signal.SIGTERM)

    def check(self) -> None:
        """Count a process that has ended by itself; to be called where it should serve."""
        if self._process is None or self._process.returncode is not None:
            self.deserted += 1

    def _signal(self, number: signal.Signals) -> None:
        self.check()
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _end(self, number: signal.Signals) -> None:
        self.check()
        process, self._process = self._process, None
        if process is not None:
            await _end(process, number)


class Fleet:
    """Worker processes, in use for as long as the ``async with`` block lasts."""

    def __init__(self, roles: list[Role]) -> None:
        self._roles = roles
        self.workers: dict[str, WorkerProcess] = {}

    def of(self, interceptor: str) -> list[WorkerProcess]:
        """Return the workers of *interceptor*."""
        return [worker for worker in self.workers.values() if worker.role.interceptor == interceptor]

    async def __aenter__(self) -> Self:
        self._spares = Spares(len(self._roles))
        self.workers = {role.worker: WorkerProcess(role, self._spares) for role in self._roles}
        for worker in self.workers.values():
            await worker.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for worker in self.workers.values():
            worker.go_on()
            await worker.kill()
        await self._spares.end()
