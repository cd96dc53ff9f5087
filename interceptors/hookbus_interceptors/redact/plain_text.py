"""Text as a reader sees it: without characters that do not show, and with plain digits, dashes and spaces.

Numbers are hidden from patterns by zero-width characters, digits of other scripts and full-width letters. All of
them are gone from the plain form, and each of its characters knows where in the text it came from.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Final

import msgspec


class PlainText(msgspec.Struct, frozen=True):
    """The plain form of a text. ``places`` are those of its characters in the text, and of its end."""

    text: str
    places: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters from *start* to before *end* stand in the text itself."""
        return self.places[start], self.places[end - 1] + 1


def plain(text: str) -> PlainText:
    """Return the plain form of *text*."""
    if text.isascii():
        return PlainText(text, range(len(text) + 1))
    shown = text.translate(_PLAIN)
    if not _UNSEEN.search(shown):
        return PlainText(shown, range(len(text) + 1))
    places = [place for place, character in enumerate(shown) if character not in _UNSEEN_CHARACTERS]
    return PlainText(_UNSEEN.sub("", shown), [*places, len(text)])


class _Plain(dict[int, str]):
    """The plain form of each character by its code point, worked out when it is first asked for."""

    def __missing__(self, point: int) -> str:
        character = chr(point)
        self[point] = form = _form(character)
        return form


def _form(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category == "Pd" or character == "\N{MINUS SIGN}":
        return "-"
    if category == "Zs":
        return " "
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if len(compatible) == 1 and compatible.isascii() else character


#: Formatting characters, and those of other categories that show nothing: they join or vary what stands before.
_UNSEEN_CHARACTERS: Final = frozenset(
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) == "Cf" or "VARIATION SELECTOR" in unicodedata.name(character, "")
) | frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_UNSEEN: Final = re.compile(f"[{re.escape(''.join(sorted(_UNSEEN_CHARACTERS)))}]")
_PLAIN: Final = _Plain()
