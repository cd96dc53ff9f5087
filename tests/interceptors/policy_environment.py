"""The worker environment of ``agent-control-spec``, and a process in it that judges what it is told.

The environment has the runtime and the SDK that it pins, and everything else from the environment of the tests.
It is made once for a version and kept in ``build``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.worker.processes import ROOT

PINNED: Final = ("agent-control-spec==0.4.0b1", "agent-hooks-sdk==0.1.0b2")
#: How pip says that it cannot reach its index.
UNREACHABLE: Final = "connection broken"
_JUDGE: Final = """
import json, sys
from hookbus import HookbusError
from hookbus_interceptors.policy.agent_control import AgentControlConfiguration, AgentControlPolicy
for line in sys.stdin:
    settings, context = json.loads(line)
    try:
        interceptor = AgentControlPolicy(AgentControlConfiguration.model_validate(settings))
        answer = interceptor.intercept(context).to_wire()
    except HookbusError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer), flush=True)
"""


class IndexUnreachable(Exception):
    """The runtime cannot be installed: pip reaches no package index."""


def made() -> Path:
    """Return the interpreter of the environment, made if it is not there. Raises :class:`IndexUnreachable`."""
    name = "-".join(["policy", *PINNED, sysconfig.get_python_version()]).replace("==", "-")
    environment = ROOT / "build" / name
    python = environment / "bin" / "python"
    if not python.exists():
        environment.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=environment.parent) as folder:
            making = Path(folder) / "made"
            venv.create(making, symlinks=True)
            _install(making)
            # Another process may have been faster; what it made is the same.
            if not environment.exists():
                making.rename(environment)
    # Behind its own packages come those of the tests, hookbus among them.
    behind = _packages(environment) / "behind.pth"
    line = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    if not behind.exists() or behind.read_text() != line:
        behind.write_text(line)
    return python


def _install(environment: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "10", "--no-deps"]
    pip += ["--target", str(_packages(environment))]
    done = subprocess.run([*pip, *PINNED], capture_output=True, text=True)
    if done.returncode and UNREACHABLE in done.stderr:
        raise IndexUnreachable
    if done.returncode:
        raise RuntimeError(done.stderr)


def _packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"


class Judge:
    """A process of *python* that makes an interceptor of what it is told and asks it; left, it ends."""

    def __init__(self, python: Path) -> None:
        self._command = [str(python), "-W", "error", "-c", _JUDGE]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if not key.startswith("HOOKBUS_")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def verdict(self, settings: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict on *context*, or ``{"refused": why}`` for *settings* that are not taken."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([settings, context]), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
