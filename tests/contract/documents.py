"""JSON documents of the tests: read without losing a digit, compared exactly, and changed as a vector says."""

from __future__ import annotations

import copy
import datetime
import json
from typing import Any

from tests.contract.vectors import Held, Put

LONE_SURROGATE = "\ud800"


def exact(value: Any) -> str:
    """Return text that is equal for two documents exactly if no reader could tell them apart."""
    return json.dumps(value, sort_keys=True)


def place(document: Any, pointer: str) -> Any:
    """Return what stands at *pointer*."""
    for segment in pointer.split("/")[1:]:
        document = document[int(segment)] if isinstance(document, list) else document[segment]
    return document


def changed(document: dict[str, Any], puts: tuple[Put, ...]) -> dict[str, Any]:
    """Return a copy of *document* with every change of *puts* made."""
    document = copy.deepcopy(document)
    for put in puts:
        parent, _, name = put.at.rpartition("/")
        holder = place(document, parent)
        if put.remove:
            del holder[name]
        else:
            holder[name] = _trap(put.trap) if put.trap is not None else held(put)
    return document


def held(put: Put | Held) -> Any:
    """Return the value that *put* describes."""
    if put.json is not None:
        return json.loads(put.json)
    if put.digits is not None:
        return 10**put.digits - 1
    if put.string_bytes is not None:
        return "a" * put.string_bytes
    assert put.levels is not None
    value: list[Any] = []
    for _ in range(put.levels - 1):
        value = [value]
    return value


def _trap(name: str) -> Any:
    match name:
        case "nan":
            return float("nan")
        case "infinity":
            return float("inf")
        case "minus_infinity":
            return float("-inf")
        case "lone_surrogate":
            return LONE_SURROGATE
        case "lone_surrogate_key":
            return {LONE_SURROGATE: 1}
        case "number_key":
            return {1: 1}
        case "date":
            return datetime.date(2026, 11, 30)
        case "bytes":
            return b"bytes"
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle
