"""``hookbus interceptor new``: what it writes passes its own test and runs; what it refuses leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hookbus_interceptors.scaffold.writing import FileExists, NameUnusable, write_interceptor
from tests.worker.asking import Asker, context
from tests.worker.processes import WorkerProcess

HOOKBUS = (sys.executable, "-m", "hookbus")


def test_what_is_written_passes_its_own_test(tmp_path: Path) -> None:
    told = subprocess.run(
        [*HOOKBUS, "interceptor", "new", "card-guard", "--dir", str(tmp_path / "made")],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"card_guard.py", "test_card_guard.py", "card-guard.toml"}
    assert all(name in told.stdout for name in names)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path / "made",
        capture_output=True,
        text=True,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_its_test_fails_when_the_interceptor_permits(tmp_path: Path) -> None:
    module, _, _ = write_interceptor("card-guard", tmp_path)
    module.write_text(module.read_text().replace("return deny(", "deny(") + "\n")
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=tmp_path, capture_output=True, text=True)
    assert "2 failed" in tested.stdout


def test_what_is_written_is_formatted_and_linted_by_ruffs_own_defaults(tmp_path: Path) -> None:
    write_interceptor("card-guard", tmp_path)
    for command in (["ruff", "check", "--isolated", "."], ["ruff", "format", "--check", "--isolated", "."]):
        done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.anyio
async def test_what_is_written_runs_in_a_worker(
    asker: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_interceptor("card-guard", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    arguments = ("--interceptor-config", str(tmp_path / "card-guard.toml"))
    with WorkerProcess("card_guard:CardGuard", "policy", *arguments, url=asker.url, tenant=asker.tenant):
        refused = context()
        refused["tool_call"]["name"] = "drop_table"
        assert (await asker.ask(refused)).verdict["reason"] == "card-guard:refused"
        assert (await asker.ask()).verdict["decision"] == "allow"


@pytest.mark.parametrize(
    "name", ["", "Card", "card guard", "-card", "card-", "a--b", "1card", "class", "x" * 65, "a/b"]
)
def test_a_name_that_is_no_token_or_no_module_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NameUnusable):
        write_interceptor(name, tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["card_guard.py", "test_card_guard.py", "card-guard.toml"])
def test_nothing_is_written_over_and_nothing_beside_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExists):
        write_interceptor("card-guard", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"
