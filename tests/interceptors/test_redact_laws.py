"""What holds for every text: once redacted it stays, keeps its shape, and takes time by its length alone."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.redact import Redact, RedactConfiguration
from hookbus_interceptors.redact.found import Found, apart
from hookbus_interceptors.redact.plain_text import plain
from hookbus_interceptors.redact.redaction import Redaction, Unsettled, change

cases = settings(max_examples=200, deadline=None, derandomize=True)

#: With nothing known again: what they did before must not answer for them.
REPLACING = Redact(RedactConfiguration(phone_regions=frozenset({"US", "ES"}), remember=0))
HASHING = Redact(RedactConfiguration.model_validate({"otherwise": "hash", "key": "k" * 32, "remember": 0}))
CLIENTS = [TestClient(REPLACING), TestClient(HASHING)]

FRAGMENTS = [
    "bob@corp.com",
    "DE89 3704 0044 0532 0130 00",
    "4111111111111111",
    "4111 1111 1111 1111",
    "12345678Z",
    "390.533.447-05",
    "39053344705",
    "536-90-4399",
    "536904399",
    "+34 612 345 678",
    "(415) 555-2671",
    "8.8.8.8",
    "AKIAIOSFODNN7EXAMPLE",
    "password: ",
    "password='",
    "ssn ",
    "phone ",
    "[EMAIL]",
    "[US_SSN]",
    "[CARD:aaaabbbbccccdddd]",
    "[",
    "]",
    "1",
    "4 1 1",
    " ",
    "  ",
    "\n",
    ". ",
    "-",
    "/",
    "'",
    '"',
    "://u:",
    "@",
    "\u200b",
    "٤",
    "é",
    "{",
    "}",
    "Bearer ",
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join)
names = st.sampled_from(["to", "ssn", "password", "bob@corp.com", "4111111111111111", "x y"])
values = st.recursive(
    texts
    | st.none()
    | st.booleans()
    | st.integers(-(10**17), 10**17)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("client", CLIENTS, ids=["replace", "hash"])
@cases
@given(args=st.dictionaries(names, values, max_size=3))
def test_what_is_redacted_is_not_changed_again(client: TestClient, args: dict[str, Any]) -> None:
    once = client.pre_tool_call("x", args)
    assert once.error is None
    again = client.pre_tool_call("x", once.target)
    assert again.transform is None, again.target


@cases
@given(value=values)
def test_a_value_keeps_its_shape_and_the_change_leads_to_it(value: Any) -> None:
    before = {"a": value}
    redaction = Redaction(REPLACING._finders, lambda kind, _: f"[{kind}]")
    after = redaction.value(before)
    assert _shape(after) == _shape(before)
    if after is not before:
        assert redaction.counts
        path, new = change(before, after)
        assert path.startswith("$target.a") or path == "$target"
        assert new != before


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [_shape(member) for member in value.values()]
    if isinstance(value, list):
        return [_shape(item) for item in value]
    # A number may become a token; nothing else becomes another type.
    return "text" if isinstance(value, str | int | float) and not isinstance(value, bool) else type(value)


@cases
@given(text=st.text())
def test_every_character_of_the_plain_form_knows_its_place(text: str) -> None:
    shown = plain(text)
    places = list(shown.places)
    assert len(places) == len(shown.text) + 1
    assert places == sorted(set(places))
    assert places[-1] == len(text)


@cases
@given(
    st.lists(
        st.builds(
            lambda start, length, rank: Found(start, start + length, "X", rank),
            st.integers(0, 40), st.integers(1, 12), st.integers(0, 7),
        )
    )
)  # fmt: skip
def test_pieces_are_kept_apart_and_each_that_goes_gives_way_to_one_that_counts_more(found: list[Found]) -> None:
    kept = apart(found)
    assert kept == sorted(kept, key=lambda each: each.start)
    for piece, following in itertools.pairwise(kept):
        assert not piece.overlaps(following)
    for each in found:
        over = [other for other in kept if other.overlaps(each)]
        assert each in kept or any(other.rank <= each.rank for other in over)


def test_a_text_that_does_not_come_to_rest_is_not_let_through() -> None:
    class Everything:
        def find(self, text: str, name: str) -> list[Found]:
            return [Found(0, len(text), "X")]

    redaction = Redaction([Everything()], lambda _kind, piece: piece + "!")  # type: ignore[list-item]
    with pytest.raises(Unsettled) as raised:
        redaction.value({"a": "secret"})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1-",
        "1.",
        "1 2 3 4 ",
        "8149 5288 ",
        "39053344706,",
        "a",
        "eyJ",
        "eyJa.",
        "sk-",
        "xoxb-1-",
        "@",
        "a@a.",
        "[at]",
        "://a:",
        "password=",
        "password:  ",
        "bearer ",
        "+1 ",
        "GB82 ",
        "2a:",
        "-----BEGIN PRIVATE KEY-----",
        "1\u200b",
        "bob@corp.com ",
        '"',
        "[EMAIL]",
        "AKIA",
    ],
)
def test_the_time_of_a_text_grows_with_its_length_alone(unit: str) -> None:
    def took(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.thread_time()
        Redaction(REPLACING._finders, lambda kind, _: f"[{kind}]").value(text)
        return time.thread_time() - began

    took(2_000)
    # Sixteen times would be the square; the constant is for what happens once.
    assert took(32_000) < 9 * took(8_000) + 0.1
