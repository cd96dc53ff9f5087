"""Amounts as they come: numbers, and text that people write for numbers."""

from __future__ import annotations

import re
from typing import Final

from hookbus.codec import Json

_CURRENCY: Final = re.compile(r"^(?:[A-Z]{3}\s?|[$€£¥₹]\s?)|(?:\s?[A-Z]{3}|\s?[$€£¥₹])$")
_THOUSANDS: Final = re.compile(r"(?<=\d)[ ,'.](?=\d{3}(?:\D|$))")
_PLAIN: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")


def number_in(value: Json) -> float | None:
    """Return the number that *value* is, ``"1,200.50"`` and ``"€ 1.200,50"`` included; None when it is none.

    Where a mark may separate thousands or decimals it is taken for the reading that is more.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int | float):
        return float(value)
    text = _CURRENCY.sub("", value.strip())
    decimal = re.search(r"[.,](\d{1,2}|\d{4,})$", text)
    whole = text[: decimal.start()] if decimal else text
    whole = _THOUSANDS.sub("", whole)
    text = f"{whole}.{decimal[1]}" if decimal else whole
    return float(text) if _PLAIN.fullmatch(text) else None
