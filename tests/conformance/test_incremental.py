"""Incremental mediation holds over the bus, and every expectation of its vectors is really looked at."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from .incremental import EARLIER, failures_of, incremental_vectors

pytestmark = pytest.mark.anyio

VECTORS = incremental_vectors()
Path = tuple[str | int, ...]


def test_the_part_has_four_vectors() -> None:
    assert [vector["id"] for vector in VECTORS] == ["AH-CTK-110", "AH-CTK-111", "AH-CTK-112", "AH-CTK-113"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
async def test_the_vector_holds_with_its_chunks_mediated_one_by_one(vector: dict[str, Any]) -> None:
    assert await failures_of(vector) == []


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every expectation that is a plain value, with the way to it."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def otherwise(path: Path, value: Any) -> Any:
    """An expectation that differs from *value* and, the run being what it is, is not met."""
    if path[0] == "interceptions_absent":
        return "post_model_call"
    if path[0] == "persisted_must_not_contain":
        return EARLIER
    if path[-1] == "interception_point":
        return "pre_tool_call"
    if path[-1] == "verdict.decision":
        return "deny" if value == "allow" else "allow"
    if path[-1] == "run_outcome":
        return "blocked" if value == "completed" else "completed"
    if isinstance(value, bool):
        return not value
    return "nothing" if value is None else value + "!"


def changed(vector: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    copied = copy.deepcopy(vector)
    at = copied["expect"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copied


CHANGES = [
    pytest.param(vector, path, otherwise(path, value), id=f"{vector['id']}-{'/'.join(map(str, path))}")
    for vector in VECTORS
    for path, value in leaves(vector["expect"])
    # Strict order relaxed is the one change that asks for less; that strictness counts is tested below.
    if (path, value) != (("sequence_strict",), True)
]


@pytest.mark.parametrize(("vector", "path", "value"), CHANGES)
async def test_a_changed_expectation_is_not_met(vector: dict[str, Any], path: Path, value: Any) -> None:
    assert await failures_of(changed(vector, path, value)) != []


async def test_a_strict_sequence_with_one_interception_left_out_is_not_met() -> None:
    vector = VECTORS[0]
    assert vector["expect"]["sequence_strict"] is True
    for missing in range(len(vector["expect"]["interceptions"])):
        copied = copy.deepcopy(vector)
        del copied["expect"]["interceptions"][missing]
        assert await failures_of(copied) != []
