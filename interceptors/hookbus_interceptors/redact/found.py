"""What is found in a text: a piece of it, and of which kind it is."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

#: The words before a number that may name it stand within this many characters, and in its sentence.
_NEAR_CHARACTERS: Final = 48
_SENTENCE_END: Final = re.compile(r"\w{4}[.!?]\s")


class Found(msgspec.Struct, frozen=True):
    """The characters from ``start`` to before ``end`` are of this kind."""

    start: int
    end: int
    kind: str
    #: Of two that overlap the one with the lower rank counts; of two alike the longer.
    rank: int = 5

    def overlaps(self, other: Found) -> bool:
        """Whether the two have a character in common."""
        return self.start < other.end and other.start < self.end


class Finder(Protocol):
    """Finds pieces of certain kinds."""

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield what is in *text*, which stands under *name* (in lower case, empty where it has none).

        In time that grows with the length of *text* and no faster. Pieces may overlap.
        """
        ...


def apart(found: Iterable[Found]) -> list[Found]:
    """Return the pieces that count, in their order in the text; no two overlap."""
    kept: list[Found] = []
    for each in sorted(found, key=lambda each: (each.rank, each.start - each.end, each.start)):
        place = bisect.bisect(kept, each.start, key=lambda piece: piece.start)
        if not any(each.overlaps(other) for other in kept[max(0, place - 1) : place + 1]):
            kept.insert(place, each)
    return kept


def words_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds one of *words*, in any case, also in a name such as ``customer_ssn``."""
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, words))})(?![^\W_]|/)", re.IGNORECASE)


def before(text: str, start: int) -> str:
    """Return what stands shortly before *start* in *text*, in the same sentence: what a number there is called."""
    near = text[max(0, start - _NEAR_CHARACTERS) : start]
    return _SENTENCE_END.split(near)[-1]
