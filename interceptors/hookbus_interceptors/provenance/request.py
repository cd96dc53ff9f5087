"""What the user asked for: whether their words call for a kind of action at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hookbus_interceptors.effects import Kind

#: Words that ask for an answer, not for an action.
_ANSWER: Final = re.compile(
    r"\b(?:tell|give|show|send|write|get|let|remind|find|make) (?:me|us|sure)(?: know)?\b(?! (?:an? )?e-?mail)"
)
#: A word after one of these is a noun.
_BEFORE_NOUN: Final = (
    *("a", "an", "the", "my", "our", "your", "his", "her", "their", "this", "that", "these", "those", "any"),
    *("unread", "recent", "via", "by", "in", "from", "of", "through", "about", "per"),
)
_NOT_NOUN: Final = "".join(rf"(?<!\b{word} )" for word in _BEFORE_NOUN)
_ENDING: Final = r"(?:e|s|es|ed|d|ing|[bdglmnprt]ing|[bdglmnprt]ed|ation|y|ies|ied)?"


def asks_for(kind: Kind, texts: Iterable[str]) -> bool:
    """Whether a verb in *texts* asks for *kind*. As a noun, or as a request to be told, it does not."""
    asking = _asking(kind.asked_by)
    return any(asking.search(_ANSWER.sub(" ", _plain(text))) for text in texts)


def hands_over(phrases: tuple[str, ...], texts: Iterable[str]) -> bool:
    """Whether one of *phrases* in *texts* leaves to another text what is to be done."""
    return any(re.search(rf"\b{re.escape(phrase)}\b", _plain(text)) for text in texts for phrase in phrases)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


@lru_cache(maxsize=256)
def _asking(stems: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(re.escape(stem) for stem in stems)
    return re.compile(rf"{_NOT_NOUN}\b(?:{words}){_ENDING}\b")
