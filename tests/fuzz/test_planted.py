"""The laws can fail: each of these faults, planted, is found within 2,000 cases."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from agent_hooks import Verdict

from hookbus import envelope
from hookbus.questions import Judgement
from hookbus_client import transforms
from tests.fuzz.targets import TARGETS

MOST_CASES = 2000

_segments = transforms._segments


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def found_after(name: str) -> int | None:
    """Return how many cases of the target *name* it takes until one fails, or None if none does."""
    async with TARGETS[name][0]() as target:
        for number in range(MOST_CASES):
            try:
                await target.check(target.case(Random(f"planted/{name}/{number}")))
            except Exception:
                return number
    return None


def last_key_wins(body: bytes) -> Judgement:
    """Judge as a decoder does that keeps the last of two equal keys and looks at the decision alone."""
    try:
        document = msgspec.json.decode(body)
        document = document.get("verdict", document)
        return Judgement(Verdict.from_wire(json.loads(json.dumps(document))), True)
    except (msgspec.MsgspecError, ValueError, AttributeError, UnicodeDecodeError):
        return Judgement(None, False)


def without_bad_lines(raw: bytes) -> envelope.Headers:
    """Read what can be read, and leave out the rest."""
    lines = [line.partition(b":") for line in raw.split(b"\r\n")[1:]]
    values = {name.decode("latin-1"): value.strip().decode("latin-1") for name, colon, value in lines if colon}
    return envelope.Headers(None, values)


def test_nothing_is_found_where_no_fault_is_planted() -> None:
    assert {name: asyncio.run(found_after(name)) for name in ("headers", "paths")} == {
        "headers": None,
        "paths": None,
    }


@pytest.mark.parametrize(
    ("name", "module", "function", "planted"),
    [
        ("answers", "tests.fuzz.answers", "judged", last_key_wins),
        ("answers", "hookbus.envelope", "parse", without_bad_lines),
        ("answers", "hookbus.signing", "verifies", lambda _key, signature, _data: bool(signature)),
        ("answers", "hookbus.questions.Questions", "_is_signed", lambda *_arguments: True),
        ("headers", "hookbus.envelope", "parse", without_bad_lines),
        ("questions", "hookbus_interceptors.intake", "check_signature", lambda *_arguments: None),
        ("questions", "hookbus_interceptors.intake.Repeats", "check", lambda *_arguments, **_more: None),
        ("questions", "hookbus.subjects", "answers_of", lambda *_tokens: ""),
        ("questions", "hookbus.envelope", "parse", without_bad_lines),
        ("paths", "hookbus_client.transforms", "_segments", lambda path: _segments(path)[:-1]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, function: str, planted: Any
) -> None:
    monkeypatch.setattr(f"{module}.{function}", planted)
    assert asyncio.run(found_after(name)) is not None
