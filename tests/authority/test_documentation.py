"""The page about authority says what is generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookbus.authority.roles import API, APPROVALS, RECORDS, Role, grants
from tests.authority.actions import WHO

PAGE = (Path(__file__).parents[2] / "docs" / "authority.md").read_text("utf-8")


def row(role: Role) -> str:
    (found,) = (line for line in PAGE.splitlines() if line.startswith(f"| {role} |"))
    return found


@pytest.mark.parametrize("role", [Role.AGENT, Role.APPROVER, Role.AUDITOR, Role.STORE])
def test_the_page_lists_every_permission_of_a_role(role: Role) -> None:
    granted = grants(role, "default", WHO[role])
    listed = row(role)
    if "and the same three of `APPROVALS`" in listed:
        listed += listed.replace(RECORDS, APPROVALS)
    assert all(f"`{subject}`" in listed for subject in (*granted.publish, *granted.subscribe))


def test_the_page_lists_every_permission_of_a_worker() -> None:
    granted = grants(Role.WORKER, "default", "policy")
    questions, second_attempts, *requests = granted.subscribe
    assert all(f"`{subject}`" in row(Role.WORKER) for subject in granted.publish)
    assert "`{}` in the queue group `{}`".format(*questions.split()) in row(Role.WORKER)
    assert f"`{second_attempts}`" in row(Role.WORKER)
    verbs = ("$SRV.PING", "$SRV.INFO", "$SRV.STATS")
    assert set(requests) == {f"{verb}{which}" for verb in verbs for which in ("", ".policy", ".policy.*")}
    assert "`$SRV.PING`, `$SRV.INFO`, `$SRV.STATS`, and the same with `.policy` and `.policy.*`" in row(
        Role.WORKER
    )


def test_the_page_lists_every_permission_of_an_operator() -> None:
    granted = grants(Role.OPERATOR, "default", "olga")
    assert granted.subscribe == ("_INBOX.operator.olga.>",)
    for subject in granted.publish:
        named = subject.removeprefix(f"{API}.").replace(RECORDS, "<stream>").replace(APPROVALS, "<stream>")
        assert f"`{named}`" in row(Role.OPERATOR)
