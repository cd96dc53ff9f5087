"""One process of the fleet: started, started again when it dies, drained."""

from __future__ import annotations

import enum
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

#: The pause before a process that died is started again; twice as long each time it dies, up to the second.
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
#: A process that served this long is well: the next pause is the first again.
STEADY_S: Final = 10.0
#: What a process may take to drain before it is killed.
DRAIN_S: Final = 30.0
#: What is left to be read of a process that has ended, when something it started still holds its pipes.
_LAST_WORDS_S: Final = 1.0
_LONGEST_LINE_BYTES: Final = 64 * 1024


class State(enum.Enum):
    """Where a process is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    DIED = "died"
    DRAINING = "draining"
    ENDED = "ended"


class Supervised:
    """A process that is kept running until :meth:`drain`.

    *command* makes its command line anew for each start. It serves once it has written a line in which *ready* is
    found. ``on_change`` is told of every change of state, ``on_line`` of every line that the process writes;
    neither may wait.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[], Sequence[str]],
        ready: re.Pattern[str],
        *,
        on_change: Callable[[Supervised], None],
        on_line: Callable[[Supervised, str], None],
    ) -> None:
        self.name = name
        self.state = State.STARTING
        self.process: Process | None = None
        #: What was found in the line that said it serves.
        self.found: re.Match[str] | None = None
        #: How often it was started again.
        self.restarts = 0
        #: The exit status of the last one that ended; negative for a signal.
        self.status: int | None = None
        self.pause_s = FIRST_PAUSE_S
        self._command = command
        self._ready = ready
        self._on_change = on_change
        self._on_line = on_line
        self._settled = anyio.Event()
        self._drain = anyio.Event()

    @property
    def pid(self) -> int | None:
        """The process's id, while there is one."""
        return None if self.process is None else self.process.pid

    async def settled(self) -> bool:
        """Wait until it serves, has died or has been drained, whichever is first; return whether it serves."""
        await self._settled.wait()
        return self.state is State.SERVING

    async def run(self) -> None:
        """Keep it running; return when it has ended after :meth:`drain`. Cancelling kills it."""
        while True:
            began_s = anyio.current_time()
            await self._live()
            if self._drain.is_set():
                break
            if self.found is not None and anyio.current_time() - began_s >= STEADY_S:
                self.pause_s = FIRST_PAUSE_S
            self._change(State.DIED)
            with anyio.move_on_after(self.pause_s):
                await self._drain.wait()
                break
            self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
            self.restarts += 1
        self._change(State.ENDED)

    def drain(self) -> None:
        """Have it finish what it has begun, and start it no more."""
        self._drain.set()
        self._signal(signal.SIGTERM)
        if self.process is not None:
            self._change(State.DRAINING)

    def kill(self) -> None:
        """End it and all that it has started at once, and start it no more."""
        self._drain.set()
        if self.process is not None:
            self._sweep(self.process.pid)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    @staticmethod
    def _sweep(pid: int) -> None:
        """Kill a process and whatever it has started and left behind."""
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _change(self, state: State) -> None:
        self.state = state
        if state is not State.STARTING:
            self._settled.set()
        self._on_change(self)

    async def _live(self) -> None:
        """Start it once and wait until it has ended."""
        self.found = None
        self._change(State.STARTING)
        # A session of its own: Ctrl-C in a terminal goes to every process of the terminal's, and a worker that
        # hears of it twice ends at once instead of draining; the server would end before they have answered.
        started = await anyio.open_process(
            self._command(),
            # Held for as long as this process lives: what runs on a leash ends when it is let go.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        async with started as process:
            self.process = process
            if self._drain.is_set():
                self._signal(signal.SIGTERM)
            try:
                async with anyio.create_task_group() as reading:
                    assert process.stdout is not None
                    reading.start_soon(self._read, process.stdout)
                    async with anyio.create_task_group() as limit:
                        limit.start_soon(self._kill_late)
                        try:
                            self.status = await process.wait()
                        finally:
                            # What it left behind would answer on, with nobody to look after it.
                            self._sweep(process.pid)
                        limit.cancel_scope.cancel()
                    reading.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
            finally:
                self.process = None

    async def _kill_late(self) -> None:
        await self._drain.wait()
        await anyio.sleep(DRAIN_S)
        self.kill()

    async def _read(self, stream: ByteReceiveStream) -> None:
        async for line in _lines(stream):
            self._on_line(self, line)
            if self.found is None and (found := self._ready.search(line)) is not None:
                self.found = found
                if not self._drain.is_set():
                    self._change(State.SERVING)


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[str]:
    buffered = BufferedByteReceiveStream(stream)
    while True:
        try:
            line = await buffered.receive_until(b"\n", _LONGEST_LINE_BYTES)
        except anyio.DelimiterNotFound:
            line = await buffered.receive_exactly(_LONGEST_LINE_BYTES)
        except (anyio.IncompleteRead, anyio.ClosedResourceError):
            if buffered.buffer:
                yield buffered.buffer.decode("utf-8", "replace")
            return
        yield line.decode("utf-8", "replace").rstrip("\r")
