"""The code of docs/agent.md and docs/declarations.md runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from hookbus.server import EmbeddedServer
from hookbus_client.demo.scripted_endpoint import Message, Reply, Tool, ToolCall, scripted_endpoint
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = pytest.mark.anyio

AGENT = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "agent.md").read_text("utf-8"), re.DOTALL)
DECLARATIONS = (ROOT / "docs" / "declarations.md").read_text("utf-8")


def traveller(messages: Sequence[Message], _tools: Sequence[Tool]) -> Reply:
    """Ask for first class; say what came of it."""
    last: Any = messages[-1]
    if last.role == "tool":
        return Reply(content=f"I was told: {last.content}")
    return Reply(tool_calls=[ToolCall("book_ticket", {"train": "301", "seat_class": "first"})])


async def test_the_agent_is_refused_by_its_own_hook_in_a_worker(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than the second of the page.
    (tmp_path / "docs_agent.py").write_text(AGENT[0].replace("timeout=1.0", "timeout=20.0"))
    (tmp_path / "docs_policy.py").write_text(AGENT[1])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    workers = [
        WorkerProcess("docs_policy:deployed", "policy", url=server.url),
        WorkerProcess("tests.end_to_end.interceptors:Always", "redactor", url=server.url),
    ]
    with workers[0], workers[1]:
        async with scripted_endpoint({"scripted": traveller}) as endpoint:
            environment = {
                **os.environ,
                "HOOKBUS_URL": server.url,
                "OPENAI_BASE_URL": endpoint,
                "OPENAI_API_KEY": "none",
                "OPENAI_MODEL": "scripted",
            }
            done = await anyio.run_process(
                [sys.executable, str(tmp_path / "docs_agent.py")], env=environment, stderr=subprocess.STDOUT
            )
    assert "First class needs a manager." in done.stdout.decode()


def test_the_declaration_of_the_page_loads(server: EmbeddedServer, tmp_path: Path) -> None:
    (document,) = re.findall(r"```json\n(.*?)```", DECLARATIONS, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", DECLARATIONS, re.DOTALL)
    (tmp_path / "host.json").write_text(document)
    script = f"{code}\nimport asyncio\nasyncio.run(declared({str(tmp_path / 'host.json')!r}))\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HOOKBUS_URL": server.url},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['policy', 'redactor']"
