"""The README's code does what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hookbus.server import EmbeddedServer
from tests.worker.processes import ROOT, WorkerProcess

README = (ROOT / "README.md").read_text("utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def agent(tmp_path: Path, server: EmbeddedServer) -> Path:
    script = tmp_path / "agent.py"
    # Only the address and the patience differ: a busy machine may take longer than the half second of the page.
    code = CODE[1].replace("nats://127.0.0.1:4222", server.url)
    script.write_text(code.replace("timeout=0.5, budget_s=2.0", "timeout=20.0, budget_s=40.0"))
    return script


def run(script: Path) -> str:
    return subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout.strip()


def test_the_agent_is_refused_by_the_policy_and_by_its_absence(
    agent: Path, server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.py").write_text(CODE[0])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with WorkerProcess("policy:decide", "policy", url=server.url):
        refused = run(agent)
    absent = run(agent)
    assert f"`{refused}`" in README
    assert f"`{absent}`" in README


def test_the_first_lines_are_the_two_commands() -> None:
    first, second = README.splitlines()[:2]
    assert first.startswith("    make demo")
    assert second.startswith("    make test")


def test_every_link_to_a_file_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "bus" / "CONTRACT.md"]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
