"""What is passed over for speed has nothing in it, and what is known is not looked through again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.recent import Recent
from hookbus_interceptors.redact import Redact, RedactConfiguration, contacts
from hookbus_interceptors.redact.contacts import Emails
from hookbus_interceptors.redact.credentials import Credentials, _Detector
from hookbus_interceptors.redact.found import Finder, Found
from hookbus_interceptors.redact.national_ids import CARDS, NATIONAL_IDS
from hookbus_interceptors.redact.numbers import _LENGTHS, Numbers, _words_in
from hookbus_interceptors.redact.plain_text import plain
from tests.interceptors.redact_figures import samples
from tests.interceptors.test_redact_laws import texts

#: Whatever is written as one of them passes its check: the law is about all that would be checked.
IDENTIFIERS = [
    msgspec.structs.replace(each, check=lambda _: True, trust="always") for each in (*CARDS, *NATIONAL_IDS)
]
CREDENTIALS, NUMBERS = Credentials([]), Numbers(IDENTIFIERS)
SLOW_CREDENTIALS, SLOW_NUMBERS = Credentials([]), Numbers(IDENTIFIERS)
SLOW_CREDENTIALS._detectors = [_Detector(each.patterns) for each in CREDENTIALS._detectors]
SLOW_CREDENTIALS._detectors_without_run = SLOW_CREDENTIALS._detectors
SLOW_NUMBERS._least_digits = dict.fromkeys(_LENGTHS, 0)
SLOW_NUMBERS._fewest_digits = 0

PATTERNS = [pattern for detector in CREDENTIALS._detectors for pattern in detector.patterns]
WRITINGS = [writing for each in IDENTIFIERS for writing in each.writings]
#: Letters that a pattern takes for these when it ignores case.
ALIKE = {"i": "İı", "s": "ſ", "k": "\u212a", "κ": "ϰ"}
EITHER = ["0123456789", "ABCXYZ", "012ABC"]


def _written(writing: str, either: str, chance: random.Random) -> str:
    """Return what is written so, with characters of *either* where a digit or a letter may stand."""
    alphabets = {"9": "0123456789", "A": "ABCDEFXYZabc", "X": either}
    # Numbers are looked for where digits are near.
    return "1234, " + "".join(chance.choice(alphabets.get(each, each)) for each in writing)


WORDS = sorted({word for each in IDENTIFIERS for word in each.words})


def _in_some_case(word: str, chance: random.Random) -> str:
    return "".join(chance.choice([each, each.upper(), *ALIKE.get(each, "")]) for each in word)


def same(quick: Finder, slow: Finder, text: str, name: str = "") -> None:
    shown = plain(text).text
    assert list(quick.find(shown, name)) == list(slow.find(shown, name))


def test_what_is_passed_over_in_generated_data_has_nothing_in_it() -> None:
    for sample in samples(3, seed=5):
        same(CREDENTIALS, SLOW_CREDENTIALS, sample.text)
        same(NUMBERS, SLOW_NUMBERS, sample.text)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:40])
def test_no_secret_that_a_detector_finds_is_passed_over(pattern: Any) -> None:
    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(secret=st.from_regex(pattern), around=texts)
    def holds(secret: str, around: str) -> None:
        same(CREDENTIALS, SLOW_CREDENTIALS, secret)
        same(CREDENTIALS, SLOW_CREDENTIALS, f"{around} {secret} {around}")

    holds()


@given(
    word=st.builds(_in_some_case, st.sampled_from(WORDS), st.randoms()),
    around=st.sampled_from(["", " ", "_", "x", "1", "/", "-", "\u0307", "é", "İ"]),
)
@settings(max_examples=500, deadline=None, derandomize=True)
def test_no_word_for_a_number_is_passed_over(word: str, around: str) -> None:
    called = f"{around}{word}{around}"
    heard = set(_words_in(called))
    for words, pattern in NUMBERS._words.items():
        assert not pattern.search(called) or heard & NUMBERS._first_words[words]


@pytest.mark.parametrize("either", EITHER)
def test_no_number_is_passed_over_in_any_writing(either: str) -> None:
    chance = random.Random(either)
    for writing in WRITINGS:
        same(NUMBERS, SLOW_NUMBERS, _written(writing, either, chance))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    parts=st.lists(
        texts | st.builds(_written, st.sampled_from(WRITINGS), st.sampled_from(EITHER), st.randoms()), max_size=6
    ),
    name=st.sampled_from(["", "ssn", "codice_fiscale"]),
)
def test_no_number_among_others_is_passed_over(parts: list[str], name: str) -> None:
    same(NUMBERS, SLOW_NUMBERS, " ".join(parts), name)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=texts)
def test_no_address_is_passed_over(text: str) -> None:
    shown = plain(text).text
    quick = list(Emails().find(shown, ""))
    with pytest.MonkeyPatch.context() as patch:
        # Every text has the empty one in it.
        patch.setattr(contacts, "_AT_SIGNS", [""])
        assert quick == list(Emails().find(shown, ""))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that finders were asked about, in order."""
    seen: list[str] = []
    find = Emails.find

    def record(self: Emails, text: str, name: str) -> Iterator[Found]:
        seen.append(text)
        return find(self, text, name)

    monkeypatch.setattr(Emails, "find", record)
    return seen


FIRST = [{"role": "user", "content": "how is the weather"}, {"role": "assistant", "content": "it rains"}]
NEXT = [*FIRST, {"role": "user", "content": "and tomorrow"}]


def test_the_next_turn_is_asked_about_the_new_message_alone(looked_at: list[str]) -> None:
    asked = TestClient(Redact(RedactConfiguration()))
    assert asked.pre_model_call(FIRST).permits
    assert {"how is the weather", "it rains"} <= set(looked_at)
    looked_at.clear()
    assert asked.pre_model_call(NEXT).permits
    assert looked_at == ["and tomorrow"]


def test_nothing_is_known_again_where_that_is_configured(looked_at: list[str]) -> None:
    asked = TestClient(Redact(RedactConfiguration(remember=0)))
    assert asked.pre_model_call(FIRST).permits
    before = list(looked_at)
    looked_at.clear()
    assert asked.pre_model_call(FIRST).permits
    assert looked_at == before


def test_a_reload_looks_through_all_again(looked_at: list[str], tmp_path: Path) -> None:
    path = tmp_path / "redact.toml"
    path.write_text('version = "1"\ncountries = ["ES"]\n')
    reloading = Redact.from_config(path)
    text = "cpf 390.533.447-05"
    assert TestClient(reloading).output(text).transform is None
    looked_at.clear()
    assert TestClient(reloading).output(text).transform is None
    assert looked_at == []
    path.write_text('version = "2"\ncountries = ["BR"]\n')
    reloading.reload()
    assert TestClient(reloading).output(text).target == {"content": "cpf [BR_CPF]"}


def test_what_a_text_is_called_and_what_may_stay_are_part_of_what_is_known_of_it() -> None:
    configuration = RedactConfiguration.model_validate({"at": {"pre_tool_call": {"EMAIL": "keep"}}})
    asked = TestClient(Redact(configuration))
    for _ in range(2):
        assert asked.pre_tool_call("send", {"to": "bob@corp.com"}).transform is None
        assert asked.output("bob@corp.com").target == {"content": "[EMAIL]"}
        assert asked.pre_tool_call("show", {"text": "hunter2"}).transform is None
        assert asked.pre_tool_call("show", {"password": "hunter2"}).target == {"password": "[SECRET]"}


def test_what_has_something_in_it_is_found_every_time() -> None:
    asked = TestClient(Redact(RedactConfiguration(actions={"SECRET": "refuse"})))
    for _ in range(3):
        assert asked.output("mail bob@corp.com").target == {"content": "mail [EMAIL]"}
        assert asked.output("password: hunter2").reason == "redact:secret"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(asked=st.lists(texts, max_size=5))
def test_what_is_known_changes_no_answer(asked: list[str]) -> None:
    knowing = TestClient(Redact(RedactConfiguration(remember=3)))
    forgetting = TestClient(Redact(RedactConfiguration(remember=0)))
    for text in [*asked, *asked]:
        assert knowing.output(text).target == forgetting.output(text).target


def test_of_what_is_known_the_longest_unused_gives_way_and_no_text_is_held() -> None:
    recent = Recent[bool](2)
    recent.keep("first text", True)
    recent.keep("second text", True)
    assert recent.find("first text")
    recent.keep("third text", True)
    assert [recent.find(text) for text in ("first text", "second text", "third text")] == [True, None, True]
    assert all(len(digest) == 32 for digest in recent._kept)
