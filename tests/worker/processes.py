"""``hookbus worker run`` as a process of its own, started and awaited without sleeping.

with WorkerProcess("tests.worker.interceptors:allow", "policy", url=server.url) as worker:
    ...  # it serves
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-c", "from hookbus.cli import main; main()", "worker", "run")
READY = "ready: "


class WorkerDied(Exception):
    """The process ended before it served; the message is what it wrote."""


class WorkerProcess:
    """A worker process; entering returns when it serves, leaving kills what is left of it.

    ``arguments`` are further ones of the command line. Targets are importable from the root of the project.
    ``output`` holds every line that the process has written on either stream.
    """

    def __init__(self, target: str, name: str, *arguments: str, url: str, tenant: str = "default") -> None:
        self._command = [*COMMAND, target, "--name", name, *arguments, "--url", url, "--tenant", tenant]
        self.output: list[str] = []
        self._wrote = threading.Condition()

    def __enter__(self) -> Self:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HOOKBUS_")}
        self.process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output.append(line)
            if line.startswith(READY):
                break
        else:
            self._end()
            self.process.stdout.close()
            raise WorkerDied("".join(self.output))
        # Keep reading, or the process stops at a full pipe.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end()
        self._reader.join()

    def signal(self, number: signal.Signals) -> None:
        """Send *number* to the process, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def kill(self) -> None:
        """End the process with SIGKILL and return when it is gone."""
        self.process.kill()
        self.process.wait()

    def wait_for_line(self, beginning: str, *, timeout_s: float = 20) -> None:
        """Return once the process has written a line with that *beginning*; TimeoutError when it does not."""
        with self._wrote:
            if not self._wrote.wait_for(
                lambda: any(line.startswith(beginning) for line in self.output), timeout_s
            ):
                raise TimeoutError("".join(self.output))

    def wait(self, *, timeout_s: float = 20) -> int:
        """Return the exit status when the process has ended by itself; raise TimeoutExpired when it has not."""
        status = self.process.wait(timeout_s)
        self._reader.join()
        return status

    def _end(self) -> None:
        self.signal(signal.SIGCONT)
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._wrote:
                    self.output.append(line)
                    self._wrote.notify_all()
