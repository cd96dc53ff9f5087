"""Finds numbers that a check proves: bank accounts, cards, and the identifiers of countries."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec
from stdnum import iban

from hookbus_interceptors.redact.found import Found, before, words_pattern
from hookbus_interceptors.redact.national_ids import Identifier

#: A stretch of text with digits in it, not far from each other. Numbers are looked for around these alone.
_DIGITS: Final = re.compile(r"\d(?:[^\n\d]{0,3}\d){3,}")
#: How far around it. Longer than any number is, so that a word that is cut short here is not taken for one.
_AROUND: Final = 24
#: What people write between the groups of a number, and how much of it.
_SEPARATORS: Final = frozenset(" \t./+_-")
_BETWEEN: Final = 2
#: Characters each apart: all that there are in a row, or the others would have to be tried from each on.
_EACH_APART: Final = re.compile(
    r"(?<![0-9A-Za-z])(?<!\b\d[ .-])(?=([0-9A-Za-z](?:[ .-][0-9A-Za-z]){6,19})(?![0-9A-Za-z])(?![ .-]\d\b))"
)
_GROUP: Final = re.compile(r"[0-9A-Za-z]+")
_WORD: Final = re.compile(r"[^\W_]+")
#: No number begins or ends with a word of more letters.
_MOST_LETTERS: Final = 6
_LENGTHS: Final = range(7, 21)
_IBAN_HEAD: Final = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]{2}[ -]?\d[ -]?\d(?=[ .-]{0,2}[0-9A-Za-z])")
_IBAN_CHARACTER: Final = re.compile(r"[ .-]{0,2}([0-9A-Za-z])")
_IBAN_LENGTHS: Final = range(15, 35)


class _Writing(msgspec.Struct, frozen=True):
    """One way to write an identifier: where it is divided, by what, and which of its characters are letters."""

    identifier: Identifier
    form: re.Pattern[str]
    divided_at: frozenset[int]
    separators: str
    length: int
    least_digits: int

    @classmethod
    def of(cls, identifier: Identifier, writing: str) -> _Writing:
        groups = re.findall(r"[9AX]+", writing)
        characters = "".join(groups)
        form = re.compile(characters.replace("X", "[9A]"))
        at = frozenset(list(accumulate(map(len, groups)))[:-1])
        return cls(identifier, form, at, _separators(writing), len(characters), characters.count("9"))


#: Letters and digits in a row: from where to before where, and how many digits.
_Group: TypeAlias = tuple[int, int, int]


class Numbers:
    """Finds bank accounts, and the identifiers it is made with."""

    def __init__(self, identifiers: Iterable[Identifier]) -> None:
        self._writings = [_Writing.of(each, writing) for each in identifiers for writing in each.writings]
        self._most_groups = 1 + max((len(each.divided_at) for each in self._writings), default=0)
        #: By length. A number of another length, or with fewer digits, is none. Without any it is a word.
        self._least_digits: dict[int, int] = {}
        for each in self._writings:
            least = self._least_digits.get(each.length, each.length)
            self._least_digits[each.length] = min(least, max(1, each.least_digits))
        self._fewest_digits = min(self._least_digits.values(), default=0)
        words = {each.identifier.words for each in self._writings}
        self._words = {each: words_pattern(each) for each in words}
        self._first_words = {each: frozenset(_words_in(first)[0] for first in each) for each in words}
        # Only forms are kept, which are the same for all numbers of a kind; no number is.
        self._of_form = functools.lru_cache(maxsize=4096)(self._writings_of_form)

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the numbers in *text*. See :class:`Finder`."""
        for start, end in stretches(text):
            yield from _ibans(text, start, end)
            for apart in _EACH_APART.finditer(text, start, end):
                compact = re.sub(r"[ .-]", "", apart[1])
                yield from self._written(text, name, *apart.span(1), compact, frozenset())
            groups: list[_Group] = []
            digits = 0
            for group in _GROUP.finditer(text, start, end):
                if groups and not _joins(text[groups[-1][1] : group.start()]):
                    groups.clear()
                    digits = 0
                letters = group[0].isalpha()
                if letters and group.end() - group.start() > _MOST_LETTERS:
                    groups.clear()
                    digits = 0
                    continue
                groups.append((*group.span(), 0 if letters else group[0].translate(_FORM).count("9")))
                digits += groups[-1][2]
                if digits >= self._fewest_digits:
                    yield from self._ending_in(text, name, groups)

    def _ending_in(self, text: str, name: str, groups: list[_Group]) -> Iterator[Found]:
        """Yield the numbers that end with the last of *groups*, whatever group they begin with."""
        end = groups[-1][1]
        length = digits = 0
        for count, (start, after, more) in enumerate(reversed(groups), 1):
            length += after - start
            digits += more
            if count > self._most_groups or length >= _LENGTHS.stop:
                return
            # What follows a point is the fraction of another number.
            if digits >= self._least_digits.get(length, _LENGTHS.stop) and not (
                text[start - 1 : start] == "." and text[max(0, start - 2)].isdigit()
            ):
                parts = [text[first:last] for first, last, _ in groups[-count:]]
                divided_at = frozenset(accumulate(map(len, parts[:-1])))
                yield from self._written(text, name, start, end, "".join(parts), divided_at)

    def _written(
        self, text: str, name: str, start: int, end: int, compact: str, divided_at: frozenset[int]
    ) -> Iterator[Found]:
        """Yield what *compact* is, which stands from *start* to before *end*, divided at these places."""
        of_form = self._of_form(compact.translate(_FORM))
        if not (writings := [each for each in of_form if divided_at <= each.divided_at]):
            return
        written = text[start:end]
        separators = _separators(written)
        called = f"{name}\n{before(text, start)}"
        words = frozenset(_words_in(called))
        for writing in writings:
            identifier = writing.identifier
            if (rank := self._rank(writing, separators, called, words)) is None:
                continue
            # A few have a sign between their digits that is part of them.
            if identifier.check(compact) or (written != compact and identifier.check(written)):
                yield Found(start, end, identifier.kind, rank)

    def _rank(self, writing: _Writing, separators: str, called: str, words: frozenset[str]) -> int | None:
        """Return what speaks for a number that passes its check: less is more, and None is too little."""
        identifier = writing.identifier
        named = not words.isdisjoint(self._first_words[identifier.words])
        if named and self._words[identifier.words].search(called):
            return 2
        if identifier.trust != "named" and writing.separators and separators == writing.separators:
            return 3
        return 4 if identifier.trust == "always" else None

    def _writings_of_form(self, form: str) -> tuple[_Writing, ...]:
        return tuple(each for each in self._writings if each.form.fullmatch(form))


#: Digits become ``9`` and letters ``A``.
_FORM: Final = str.maketrans("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "9" * 10 + "A" * 52)


def stretches(text: str) -> Iterator[tuple[int, int]]:
    """Yield where numbers can be in *text*, from left to right, no two overlapping."""
    start = end = 0
    for match in _DIGITS.finditer(text):
        first = max(0, match.start() - _AROUND)
        if first > end:
            if end:
                yield start, end
            start = first
        end = match.end() + _AROUND
    if end:
        yield start, end


def _words_in(text: str) -> list[str]:
    """Return the words of *text* so that two that a pattern takes for one, whatever their case, are alike."""
    # Patterns take both for an i; folded, they are none.
    return _WORD.findall(text.replace("İ", "i").replace("ı", "i").casefold())


def _joins(between: str) -> bool:
    return len(between) <= _BETWEEN and _SEPARATORS.issuperset(between)


def _separators(written: str) -> str:
    return "".join(each for each in written if not each.isalnum())


def _ibans(text: str, start: int, end: int) -> Iterator[Found]:
    for head in _IBAN_HEAD.finditer(text, start, end):
        letters = [each for each in head[0] if each.isalnum()]
        place = head.end()
        while len(letters) < _IBAN_LENGTHS.stop and (found := _IBAN_CHARACTER.match(text, place)):
            letters.append(found[1])
            place = found.end()
            whole = not text[place : place + 1].isalnum()
            if whole and len(letters) in _IBAN_LENGTHS and iban.is_valid("".join(letters)):
                yield Found(head.start(), place, "IBAN", 1)
                break
