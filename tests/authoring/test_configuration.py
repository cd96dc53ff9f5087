"""Configured by a file: what is read and refused, when the version changes, and that bad files change nothing."""

from __future__ import annotations

import gc
import json
import logging
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr

import hookbus_interceptors.configured
from hookbus_interceptors.authoring import PreToolCallContext, Verdict, allow, deny, pre_tool_call
from hookbus_interceptors.authoring.example import RefusedTools, RefuseTools
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.configuration import Configuration, ConfigurationInvalid, FileText, Source, version_of
from hookbus_interceptors.configured import Configured, Reloading


class Rules(Configuration):
    """Settings of every kind."""

    limit: float = 1.0
    names: frozenset[str] = frozenset()
    rules: FileText = ""
    key: SecretStr = SecretStr("")
    more: list[FileText] = Field(default_factory=list)


class Ruled(Configured[Rules]):
    """Denies by the rules; making it fails where they say so."""

    def __init__(self, configuration: Rules) -> None:
        super().__init__(configuration)
        if "explode" in configuration.rules:
            raise ZeroDivisionError(f"a secret: {configuration.rules}")

    @pre_tool_call
    def judge(self, _context: PreToolCallContext) -> Verdict:
        return deny(self.configuration.rules) if self.configuration.rules else allow()


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "rules.toml", 'version = "1"\nlimit = 2\nnames = ["b", "a"]\n')


# ---- what is read ------------------------------------------------------------------------------------


def test_a_whole_file_or_one_of_its_tables_is_read(path: Path) -> None:
    assert Source(path).read(Rules).configuration == Rules(version="1", limit=2, names=frozenset("ab"))
    write(path, '[fleet.rules]\nversion = "2"\n[other]\nanything = 1\n')
    assert Source(path, "fleet.rules").read(Rules).configuration == Rules(version="2")


@pytest.mark.parametrize(
    ("text", "table", "why"),
    [
        ("limit = nan", "", "limit: Input should be a finite number"),
        ("limit = inf", "", "limit: Input should be a finite number"),
        ('limit = "a secret"', "", "limit: Input should be a valid number"),
        ("limits = 1", "", "limits: Extra inputs"),
        ('version = "two words"', "", "version: String should match"),
        ('version = ""', "", "version: String should match"),
        ("limit = ", "", "it is not TOML"),
        ("", "fleet.rules", "no table 'fleet.rules'"),
        ("fleet = 1", "fleet.rules", "no table 'fleet.rules'"),
        ('rules = "nowhere.txt"', "", "rules: names a file that cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_by_its_setting_and_not_quoted(
    path: Path, text: str, table: str, why: str
) -> None:
    write(path, text)
    with pytest.raises(ConfigurationInvalid) as caught:
        Ruled.from_config(path, table)
    assert why in str(caught.value)
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="cannot be read"):
        Ruled.from_config(tmp_path / "nowhere.toml")


def test_a_setting_may_name_a_file_beside_it_and_holds_its_text(path: Path) -> None:
    write(path.parent / "rules.rego", "package rules")
    write(path, 'rules = "rules.rego"\nmore = ["rules.rego"]')
    read = Source(path).read(Rules).configuration
    assert (read.rules, read.more) == ("package rules", ["package rules"])
    # In code the value is the text itself.
    assert Rules(rules="rules.rego").rules == "rules.rego"


# ---- the version -------------------------------------------------------------------------------------


def test_the_version_changes_with_every_setting_and_with_nothing_else() -> None:
    versions = [
        version_of(Rules(**settings))
        for settings in (
            {},
            {"version": "1"},
            {"limit": 2},
            {"names": {"a"}},
            {"names": {"a", "b"}},
            {"rules": "x"},
            {"more": ["x"]},
        )
    ]
    assert len(set(versions)) == len(versions)
    assert version_of(Rules(limit=1, names=frozenset())) == versions[0]
    assert version_of(Rules(key=SecretStr("one"))) == version_of(Rules(key=SecretStr("another")))
    assert versions[1].startswith("1+")


def test_the_version_is_the_same_in_every_process() -> None:
    names = [f"name-{number}" for number in range(50)]
    code = f"""
from hookbus_interceptors.authoring.example import RefusedTools
from hookbus_interceptors.configuration import version_of
print(version_of(RefusedTools(tools=frozenset({names}))))
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {version_of(RefusedTools(tools=frozenset(names)))}


# ---- reloading ---------------------------------------------------------------------------------------


def test_a_change_is_taken_up_by_a_new_object_and_shown_in_the_version(path: Path) -> None:
    write(path, 'version = "1"')
    interceptor = RefuseTools.from_config(path)
    client = TestClient(interceptor)
    before = client.pre_tool_call("drop_table")
    first = interceptor.current
    assert not interceptor.reload()
    write(path, 'version = "2"\ntools = ["drop_table"]')
    assert interceptor.reload()
    after = client.pre_tool_call("drop_table")
    assert (before.permits, after.permits) == (True, False)
    assert before.policy_version == version_of(RefusedTools(version="1"))
    assert after.policy_version == version_of(RefusedTools(version="2", tools=frozenset({"drop_table"})))
    assert interceptor.current is not first
    assert first.configuration.version == "1"


def test_a_change_of_a_file_that_a_setting_names_is_taken_up(path: Path) -> None:
    rules = write(path.parent / "rules.txt", "one")
    interceptor = Ruled.from_config(write(path, 'rules = "rules.txt"'))
    before = interceptor.policy_version
    write(rules, "two")
    assert interceptor.reload()
    assert TestClient(interceptor).pre_tool_call("x").reason == "two"
    assert interceptor.policy_version != before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("limit = nan", "limit: Input should be a finite number"),
        ("not TOML", "it is not TOML"),
        (None, "it cannot be read"),
        ('rules = "rules.txt"', "ZeroDivisionError while Ruled was made"),
    ],
)
def test_a_bad_file_keeps_the_old_policy_and_says_so_once_and_loudly(
    path: Path, text: str | None, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(path.parent / "rules.txt", "explode")
    interceptor = Ruled.from_config(path)
    old = interceptor.current
    if text is None:
        path.unlink()
    else:
        write(path, text)
    for _ in range(3):
        assert not interceptor.reload()
    assert interceptor.current is old
    assert interceptor.problem is not None
    assert problem in interceptor.problem
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"NOT RELOADED, {old.policy_version} still answers: ")
    assert "secret" not in record.getMessage()
    # Mended, it answers again by the newest.
    write(path, 'version = "mended"')
    assert interceptor.reload()
    assert interceptor.problem is None
    assert interceptor.policy_version.startswith("mended+")


def test_a_setting_that_was_mended_by_another_file_alone_is_taken_up(path: Path) -> None:
    interceptor = Ruled.from_config(path)
    write(path, 'rules = "later.txt"')
    assert not interceptor.reload()
    write(path.parent / "later.txt", "now it is there")
    assert interceptor.reload()


def test_a_new_object_takes_over_what_must_outlive_a_reload(path: Path) -> None:
    class Counting(Configured[Rules]):
        def __init__(self, configuration: Rules) -> None:
            super().__init__(configuration)
            self.calls: list[str] = []

        def take_over(self, previous: Counting) -> None:
            self.calls = previous.calls

        @pre_tool_call
        def judge(self, context: PreToolCallContext) -> Verdict:
            self.calls.append(context.tool_call.name)
            return allow()

    interceptor = Counting.from_config(path)
    client = TestClient(interceptor)
    client.pre_tool_call("one")
    write(path, 'version = "2"')
    assert interceptor.reload()
    client.pre_tool_call("two")
    assert interceptor.current.calls == ["one", "two"]


class Watched(Configured[Rules]):
    """Says when a newer one takes over."""

    taken = threading.Event()

    def take_over(self, previous: Watched) -> None:
        self.taken.set()

    @pre_tool_call
    def judge(self, _context: PreToolCallContext) -> Verdict:
        return allow()


def test_the_files_are_looked_at_by_themselves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookbus_interceptors.configured, "WATCH_INTERVAL_S", 0.01)
    interceptor = Watched.from_config(path)
    write(path, 'version = "2"')
    assert Watched.taken.wait(20)
    with interceptor._reload:
        # The one that took over is in place once the reload is done.
        assert interceptor.policy_version.startswith("2+")


def test_watching_ends_with_the_interceptor(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hookbus_interceptors.configured, "WATCH_INTERVAL_S", 0.01)
    before = set(threading.enumerate())
    interceptor = Watched.from_config(path)
    (watching,) = set(threading.enumerate()) - before
    gone = weakref.ref(interceptor)
    del interceptor
    gc.collect()
    watching.join(20)
    assert not watching.is_alive()
    assert gone() is None


def test_two_that_reload_inside_one_question_are_each_held_to_their_own_version(path: Path) -> None:
    other = write(path.parent / "other.toml", 'version = "other-1"')
    write(path, 'version = "1"')
    one, two = Ruled.from_config(path), Ruled.from_config(other)
    seen: list[tuple[str, str]] = []

    def both(_context: dict[str, Any]) -> dict[str, str]:
        seen.append((one.policy_version, two.policy_version))
        write(path, 'version = "2"')
        write(other, 'version = "other-2"')
        assert one.reload()
        assert two.reload()
        seen.append((one.policy_version, two.policy_version))
        return {"decision": "allow"}

    assert TestClient(both).pre_tool_call("x").permits
    assert seen[0] == seen[1] == (version_of(Rules(version="1")), version_of(Rules(version="other-1")))
    assert one.policy_version.startswith("2+")


def test_the_object_of_a_file_says_what_the_class_says_of_itself(path: Path) -> None:
    class Aware(Ruled):
        repeat_aware = True

    aware: Reloading[Aware] = Aware.from_config(path)
    assert aware.repeat_aware
    assert aware.points == Aware(Rules()).points
    assert not Ruled.from_config(path).repeat_aware
    assert json.dumps(sorted(aware.points)) == '["pre_tool_call"]'
