"""An agent as a process of its own, whose emissions are read as they come."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from tests.faults.emissions import Emission, Emissions
from tests.worker.processes import ROOT


class AgentProcess(Emissions):
    """Emits tool calls, one after the other, from a process that leaving kills."""

    def __init__(self, url: str, config: str, *, timeout_s: float = 0.5) -> None:
        super().__init__(timeout_s)
        self._command = [sys.executable, "-m", "tests.faults.emissions", url, config, str(timeout_s)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                # The last line may have been cut by the kill.
                if line.endswith("\n"):
                    began_s, ended_s, came_to = line.split()
                    self.all.append(Emission(float(began_s), float(ended_s), came_to))
