"""A wheel built from the project installs into a clean environment and runs the demo from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.processes import ROOT


@pytest.mark.timeout(300)
def test_the_demo_runs_from_a_wheel_in_a_clean_environment(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HOOKBUS_", "OPENAI_"))}

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
    run(sys.executable, *pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, str(ROOT))
    (wheel,) = tmp_path.glob("hookbus-*.whl")
    clean = tmp_path / "clean"
    run(sys.executable, "-m", "venv", clean)
    python = clean / "bin" / "python"
    run(python, *pip, "install", "--constraint", ROOT / "constraints.txt", f"{wheel}[demo]")
    where = run(python, "-c", "import hookbus_client.demo; print(hookbus_client.demo.__file__)")
    assert str(clean) in where
    told = run(clean / "bin" / "hookbus", "demo")
    assert "no worker of 'policy' is subscribed" in told
