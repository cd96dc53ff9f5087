"""The pages about rogues and threats say what the tests show."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rogue.matrix import PAGE, SECTIONS, page, shown

ROOT = Path(__file__).parents[2]
THREATS = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::(test_[a-z0-9_]+)`")


def test_the_matrix_is_the_one_that_the_tests_show() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.rogue writes it anew"


def test_every_module_of_rogues_is_on_the_page() -> None:
    modules = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert modules == {*SECTIONS, "test_documentation"}


def test_no_row_stands_twice_and_every_role_is_among_the_rogues() -> None:
    rows = [row for _, _, row in shown()]
    assert sorted(set(rows)) == sorted(rows)
    who = " ".join(row.who for row in rows)
    assert all(
        f"{role}" in who
        for role in ("agent", "worker", "approver", "auditor", "operator", "store", "nobody", "server")
    )


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = NAMED.findall(THREATS)
    assert len(named) > 20
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{path} has no {name}"


def test_nothing_else_in_the_threat_model_looks_like_a_test() -> None:
    assert THREATS.count("::") == len(NAMED.findall(THREATS))


@pytest.mark.parametrize("line", [line for line in THREATS.splitlines() if re.match(r"\| T\d+ ", line)])
def test_every_threat_has_a_mitigation_and_a_test(line: str) -> None:
    _, number, threat, mitigation, tests, _ = (cell.strip() for cell in line.split("|"))
    assert all((number, threat, mitigation))
    assert NAMED.search(tests)
