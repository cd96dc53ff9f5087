"""Finds how somebody is reached: e-mail addresses, telephone numbers, addresses of machines."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Final

import phonenumbers
from phonenumbers import Leniency

from hookbus_interceptors.redact.found import Found, before, words_pattern
from hookbus_interceptors.redact.numbers import stretches

_AT: Final = re.compile(r"@|%40|\s?[\[({]\s?at\s?[\])}]\s?", re.IGNORECASE)
#: One of these is in all that it matches.
_AT_SIGNS: Final = "@%[({"
_LOCAL_CHARACTERS: Final = 64
#: Searched in the characters before an ``@`` alone.
_LOCAL: Final = re.compile(r"[\w!#$%&'*+=?^`{|}~.-]+\Z")
_DOT: Final = r"(?:\.|\s?[\[({]\s?dot\s?[\])}]\s?)"
_DOMAIN: Final = re.compile(
    rf"(?:[^\W_][\w-]{{0,62}}{_DOT}){{1,8}}(?P<top>[^\W\d_]{{2,24}})(?![\w-])", re.IGNORECASE
)
#: What looks like a domain in ``icon@2x.png``.
_FILES: Final = frozenset(["png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico"])

_QUAD: Final = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)")
_COLONS: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:.]{2,40}(?<![:.])(?![\w:])")
#: Words before four numbers with dots that make them a version.
_VERSION: Final = re.compile(
    r"(?:\b(?:versions?|release|build|firmware|v|rev)|[<>~^=]=)[\s:=]{0,2}\Z", re.IGNORECASE
)

_INTERNATIONAL: Final = re.compile(r"(?<![\w+])(?:\+|00)[ ]?\(?\d(?:[ ()./-]{0,3}\d){6,14}(?!\w)")
#: Digits alone are as often an order or an account, with a point in them a measure, and with two a date.
_NO_PHONE: Final = re.compile(r"\d+(?:\.\d+)?|\d{1,2}([./-])\d{1,2}\1\d{4}\b.*|\d{4}([./-])\d\d\2\d\d\b.*")
#: How far before a stretch of digits a word for a telephone is looked for.
_AROUND: Final = 48
_PHONE_WORDS: Final = words_pattern(
    ["phone", "phones", "tel", "telephone", "mobile", "cellphone", "fax", "whatsapp", "sms", "móvil",
     "teléfono", "telefone", "celular", "telefon", "handynummer", "téléphone", "telefono", "cellulare"]
)  # fmt: skip


class Emails:
    """Finds e-mail addresses, also with ``%40``, ``[at]`` and ``(dot)`` in them."""

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the addresses in *text*. See :class:`Finder`."""
        for at in _AT.finditer(text) if any(map(text.__contains__, _AT_SIGNS)) else ():
            local = _LOCAL.search(text[max(0, at.start() - _LOCAL_CHARACTERS) : at.start()])
            domain = _DOMAIN.match(text, at.end())
            if local is not None and domain is not None and domain["top"].casefold() not in _FILES:
                # Punctuation before an address is not part of it.
                length = len(local[0].lstrip(".'`*|~{=?&#%!-"))
                if length:
                    yield Found(at.start() - length, domain.end(), "EMAIL")


class Machines:
    """Finds IP addresses of machines on the Internet; with *private*, those inside a network too."""

    def __init__(self, *, private: bool) -> None:
        self._private = private

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the addresses in *text*. See :class:`Finder`."""
        for quad in _QUAD.finditer(text) if text.count(".") > 2 else ():
            if self._is_address(quad[0]) and not _VERSION.search(text[max(0, quad.start() - 10) : quad.start()]):
                yield Found(quad.start(), quad.end(), "IP")
        for colons in _COLONS.finditer(text) if text.count(":") > 1 else ():
            # A scope of C++ reads as an address, though of none that is given out.
            if self._is_address(colons[0]) and colons[0][0] in "23fF":
                yield Found(colons.start(), colons.end(), "IP")

    def _is_address(self, written: str) -> bool:
        try:
            address = ipaddress.ip_address(written)
        except ValueError:
            return False
        return address.is_global or (self._private and not (address.is_unspecified or address.is_loopback))


class Phones:
    """Finds telephone numbers: international ones, and those of *regions* as they are written there."""

    def __init__(self, regions: Iterable[str]) -> None:
        self._regions = sorted(regions)

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the numbers in *text*. See :class:`Finder`."""
        named = bool(_PHONE_WORDS.search(name))
        for match in _INTERNATIONAL.finditer(text):
            if _is_number("+" + re.sub(r"^00|\D", "", match[0])):
                yield Found(match.start(), match.end(), "PHONE")
        for start, end in stretches(text) if self._regions else ():
            yield from self._national(text, start, end, named=named)

    def _national(self, text: str, start: int, end: int, *, named: bool) -> Iterator[Found]:
        spoken_of = named or bool(_PHONE_WORDS.search(text, max(0, start - _AROUND), end))
        # Beside a word for it, a number that was never given to anybody is one all the same.
        for leniency in (Leniency.VALID, Leniency.POSSIBLE) if spoken_of else (Leniency.VALID,):
            for region in self._regions:
                for match in phonenumbers.PhoneNumberMatcher(text[start:end], region, leniency):
                    first = start + match.start
                    written = leniency == Leniency.VALID and not _NO_PHONE.fullmatch(match.raw_string)
                    if named or written or _PHONE_WORDS.search(before(text, first)):
                        yield Found(first, start + match.end, "PHONE", 6)


def _is_number(international: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(international))
    except phonenumbers.NumberParseException:
        return False
