"""The ``hookbus auth`` command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_COMMAND = (sys.executable, "-c", "from hookbus.cli import main; main()", "auth")


def auth(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it on *folder* and return what became of it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HOOKBUS_")}
    # So that no message is broken into lines.
    environment["COLUMNS"] = "1000"
    command = [*_COMMAND, *map(str, arguments), "--dir", str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def succeeded(*arguments: str | Path, folder: Path) -> str:
    """Run it and return what it said; fails unless it succeeded."""
    done = auth(*arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout
