"""Text as a reader sees it: without characters that do not show, and with plain digits, dashes and spaces.

Data is hidden from patterns by zero-width characters, digits of other scripts, full-width letters and the escapes
of JSON. All of them are gone from the plain form, and each of its characters knows where in the text it came from.
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
        """Return where the characters from *start* to before *end* stand in the text, with what hides there."""
        return self.places[start], self.places[end]


def plain(text: str) -> PlainText:
    """Return the plain form of *text*."""
    shown, places = _unescaped(text)
    if shown.isascii():
        return PlainText(shown, places)
    shown = shown.translate(_PLAIN)
    if _UNSEEN.search(shown):
        seen = [
            place for place, character in zip(places, shown, strict=False) if character not in _UNSEEN_CHARACTERS
        ]
        return PlainText(_UNSEEN.sub("", shown), [*seen, len(text)])
    return PlainText(shown, places)


def _unescaped(text: str) -> tuple[str, Sequence[int]]:
    if "\\u" not in text:
        return text, range(len(text) + 1)
    parts: list[str] = []
    places: list[int] = []
    done = 0
    for escape in _ESCAPE.finditer(text):
        parts += [text[done : escape.start()], chr(int(escape[1], 16))]
        places += range(done, escape.start() + 1)
        done = escape.end()
    return "".join([*parts, text[done:]]), [*places, *range(done, len(text) + 1)]


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


_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")
#: Formatting characters, and those of other categories that show nothing: they join or vary what stands before.
_UNSEEN_CHARACTERS: Final = frozenset(
    character
    for character in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(character) == "Cf" or "VARIATION SELECTOR" in unicodedata.name(character, "")
) | frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_UNSEEN: Final = re.compile(f"[{re.escape(''.join(sorted(_UNSEEN_CHARACTERS)))}]")
_PLAIN: Final = _Plain()
