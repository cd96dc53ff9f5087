"""``hookbus up`` as a process of its own, started and awaited without sleeping."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.worker.processes import ROOT


class Up:
    """A fleet; entering returns when all that *path* describes serves, leaving kills what is left of it.

    ``lines`` holds all that it has written. It is the leader of a process group, as a command in a terminal is.
    """

    def __init__(self, path: Path, *, workers: int) -> None:
        self._path = path
        self._workers = workers
        self.lines: list[str] = []
        self._wrote = threading.Condition()

    def __enter__(self) -> Self:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HOOKBUS_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hookbus", "up", "--fleet", str(self._path)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            for number in range(self._workers):
                self.wait_for(r"│ ready: ", times=number + 1)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            # The second one kills every process of the fleet, which are in sessions of their own.
            self.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                self.wait_for("draining|ended", timeout_s=5)
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()
        self.process.wait()
        self._reader.join()

    @property
    def url(self) -> str:
        """Where its server listens."""
        return self.wait_for(r"ready at (nats://\S+?);")[1]

    def pid(self, name: str) -> int:
        """The process id of *name* as the last table shows it."""
        return int(self.wait_for(rf"│ {name} +│ (\d+)", last=True)[1])

    def signal(self, number: signal.Signals) -> None:
        """Send *number* to the command itself."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT to the process group, as Ctrl-C in a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait_for(
        self, pattern: str, *, times: int = 1, last: bool = False, timeout_s: float = 60
    ) -> re.Match[str]:
        """Return where *pattern* is found in a line for the *times*-th, or so far the *last*, time."""
        found: list[re.Match[str]] = []

        def enough() -> bool:
            found[:] = [match for line in self.lines if (match := re.search(pattern, line))]
            return len(found) >= times

        with self._wrote:
            if not self._wrote.wait_for(enough, timeout_s):
                raise TimeoutError(f"{pattern!r} is not found in:\n" + "".join(self.lines))
        return found[-1 if last else times - 1]

    def wait(self, *, timeout_s: float = 60) -> int:
        """Return the exit status when it has ended by itself."""
        status = self.process.wait(timeout_s)
        self._reader.join()
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._wrote:
                    self.lines.append(line)
                    self._wrote.notify_all()
