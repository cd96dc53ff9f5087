"""Days that a text names, so that a call for another day can be seen."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        [
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ],
        start=1,
    )
    for name in names
}
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY: Final = r"(\d{1,2})(?:st|nd|rd|th)?"
_ISO: Final = re.compile(r"\b(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_MONTH_DAY: Final = re.compile(
    rf"\b({_MONTH})\.? (?:the )?{_DAY}(?:\s*(?:-|–|to|and|until)\s*{_DAY}(?! of))?\b(?:,? (\d{{4}}))?"
)
_DAY_MONTH: Final = re.compile(
    rf"\b(?:{_DAY}\s*(?:-|–|to|and|until)\s*(?:the )?)?{_DAY} (?:of )?({_MONTH})\b\.?,?(?: (\d{{4}}))?"
)
_NUMERIC: Final = re.compile(r"\b(\d{1,2})[./](\d{1,2})[./](\d{4})\b")
_RELATIVE: Final = re.compile(
    r"\b(today|tonight|tomorrow|yesterday|(?:next|this|coming) (?:week|month|year|weekend)|(?:mon|tues|wednes"
    r"|thurs|fri|satur|sun)days?|in \w+ (?:days?|weeks?|months?))\b"
)


class Day(NamedTuple):
    """A day of a month; without a year it is that day of any."""

    month: int
    day: int
    year: int | None = None

    def meets(self, other: Day) -> bool:
        """Whether the two may be the same day."""
        years = {self.year, other.year} - {None}
        return (self.month, self.day) == (other.month, other.day) and len(years) < 2


class Days(NamedTuple):
    """The days that a text names, and whether it also speaks of some by ``tomorrow`` and the like."""

    named: frozenset[Day]
    relative: bool


def days_in(text: str) -> Days:
    """Return the days that *text* names, in figures or in English."""
    text = " ".join(text.casefold().split())
    found = {Day(int(month), int(day), int(year)) for year, month, day in _ISO.findall(text)}
    for first, second, year in _NUMERIC.findall(text):
        # Which of the two is the month depends on the country.
        found |= {Day(int(first), int(second), int(year)), Day(int(second), int(first), int(year))}
    for month, day, until, year in _MONTH_DAY.findall(text):
        found |= {_day(month, number, year) for number in (day, until) if number}
    for since, day, month, year in _DAY_MONTH.findall(text):
        found |= {_day(month, number, year) for number in (since, day) if number}
    return Days(frozenset(found), _RELATIVE.search(text) is not None)


def without_days(text: str) -> str:
    """Return *text* without the days and times in it, so that their figures are not taken for others."""
    text = text.casefold()
    for pattern in (_ISO, _NUMERIC, _MONTH_DAY, _DAY_MONTH):
        text = pattern.sub(" ", text)
    return re.sub(r"\b\d{1,2}[:.]\d{2}\s*(?:h|am|pm)?\b(?!\.?\d)|\b\d{1,2}\s*(?:am|pm)\b", _time_only, text)


def _time_only(found: re.Match[str]) -> str:
    # 12.50 is an amount; 12:50 and 9am are times.
    return found[0] if "." in found[0] else " "


def _day(month: str, day: str, year: str) -> Day:
    return Day(_MONTHS[month], int(day), int(year) if year else None)
