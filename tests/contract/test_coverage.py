"""The contract and its vectors are held to each other, and the vectors to their schema."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract import vectors

CONTRACT = Path(__file__).parents[2] / "bus" / "CONTRACT.md"
ROW = re.compile(r"\| (C\d+\.\d+) \| (.+) \| (in force|decided) \| (.*?) ?\|")
VECTORS = vectors.load()[0]


class Clause(NamedTuple):
    in_force: bool
    patterns: list[str]


def clauses() -> dict[str, Clause]:
    found: dict[str, Clause] = {}
    for line in CONTRACT.read_text("utf-8").splitlines():
        if line.startswith("| C"):
            row = ROW.fullmatch(line)
            assert row is not None, line
            assert row[1] not in found, f"{row[1]} stands twice"
            found[row[1]] = Clause(row[3] == "in force", re.findall(r"`([^`]+)`", row[4]))
    return found


CLAUSES = clauses()


@pytest.mark.parametrize("number", [number for number, clause in CLAUSES.items() if clause.in_force])
def test_a_clause_in_force_names_vectors_that_exist_and_show_it(number: str) -> None:
    patterns = CLAUSES[number].patterns
    assert patterns
    for pattern in patterns:
        named = [vector for name, vector in VECTORS.items() if fnmatchcase(name, pattern)]
        assert named, f"no vector is called {pattern}"
        assert any(number in vector.clauses for vector in named), f"no {pattern} shows {number}"
    unnamed = [
        vector.id
        for vector in VECTORS.values()
        if number in vector.clauses and not any(fnmatchcase(vector.id, pattern) for pattern in patterns)
    ]
    assert unnamed == []


def test_a_clause_that_is_only_decided_has_no_vector() -> None:
    decided = {number for number, clause in CLAUSES.items() if not clause.in_force}
    assert decided
    assert not any(CLAUSES[number].patterns for number in decided)
    assert [vector.id for vector in VECTORS.values() if decided & set(vector.clauses)] == []


def test_every_vector_names_clauses_that_exist() -> None:
    assert {number for vector in VECTORS.values() for number in vector.clauses} <= CLAUSES.keys()


def test_clauses_are_numbered_in_order_within_their_section() -> None:
    by_section: dict[str, list[int]] = {}
    for number in CLAUSES:
        section, _, place = number.removeprefix("C").partition(".")
        by_section.setdefault(section, []).append(int(place))
    assert list(by_section) == [str(section) for section in range(1, 8)]
    assert all(places == list(range(1, len(places) + 1)) for places in by_section.values())


def test_the_schema_beside_the_vectors_is_the_one_they_are_read_with() -> None:
    written = json.loads(vectors.FOLDER.joinpath("vectors.schema.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(vectors.schema()))


def test_the_readme_beside_the_vectors_names_every_kind_and_every_file() -> None:
    readme = vectors.FOLDER.joinpath("README.md").read_text("utf-8")
    kinds = {type(vector).__struct_config__.tag for vector in VECTORS.values()}
    assert {kind for kind in kinds if f"`{kind}`" not in readme} == set()
    files = {path.name for path in vectors.FOLDER.iterdir()} - {"README.md"}
    assert {name for name in files if f"`{name}`" not in readme} == set()
