"""Configured interceptors as worker processes: the option, the table, a reload while it serves, a wrong file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.worker.asking import Asker, eventually
from tests.worker.processes import COMMAND, ROOT, WorkerProcess

pytestmark = pytest.mark.anyio

REFUSE_TOOLS = "hookbus_interceptors.authoring.example:RefuseTools"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments, "--name", "policy"], cwd=ROOT, capture_output=True, text=True)


async def test_a_worker_process_takes_up_a_changed_table_without_a_restart(asker: Asker, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[fleet.refuse]\nversion = "1"\ntools = ["another"]\n')
    arguments = ("--interceptor-config", str(path), "--table", "fleet.refuse", "--policy-version", "the option")
    with WorkerProcess(REFUSE_TOOLS, "policy", *arguments, url=asker.url, tenant=asker.tenant) as worker:
        before = await asker.ask()
        assert before.verdict["decision"] == "allow"
        assert before.headers["Hb-Policy"].startswith("1+")
        # Only its own points are served.
        assert "".join(worker.output).count("ctx.policy.") == 1

        path.write_text('[fleet.refuse]\nversion = "2"\ntools = ["book"]\n')

        async def refuses() -> bool:
            return (await asker.ask()).verdict["decision"] == "deny"

        await eventually(refuses)
        after = await asker.ask()
        assert after.headers["Hb-Policy"].startswith("2+")
        assert after.headers["Hb-Worker"] == before.headers["Hb-Worker"]

        path.write_text('[fleet.refuse]\nversion = "3"\ntools = "not a list"\n')

        async def complains() -> bool:
            return any("NOT RELOADED" in line for line in worker.output)

        await eventually(complains)
        assert (await asker.ask()).headers["Hb-Policy"] == after.headers["Hb-Policy"]


def test_a_wrong_file_ends_the_worker_with_one_line_about_it(tmp_path: Path) -> None:
    path = tmp_path / "refuse.toml"
    path.write_text("tool = []")
    done = run(REFUSE_TOOLS, "--interceptor-config", str(path))
    assert done.returncode == 1
    assert "tool: Extra inputs are not permitted" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_what_takes_no_configuration_says_so() -> None:
    done = run("tests.worker.interceptors:allow", "--interceptor-config", "any.toml")
    assert done.returncode == 1
    assert "allow takes no configuration" in done.stderr.replace("\n", " ")


def test_what_needs_a_configuration_says_so() -> None:
    done = run(REFUSE_TOOLS)
    assert done.returncode == 1
    assert "--interceptor-config FILE" in done.stderr.replace("\n", " ")
