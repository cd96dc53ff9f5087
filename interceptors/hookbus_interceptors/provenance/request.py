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
#: A word after one of these is a noun, or tells what has happened.
_BEFORE_NOUN: Final = (
    *("a", "an", "the", "my", "our", "your", "his", "her", "their", "this", "that", "these", "those", "any"),
    *("unread", "recent", "via", "by", "in", "from", "of", "through", "about", "per", "is", "are", "was", "were"),
    *("been", "have", "has", "had"),
)
_NOT_NOUN: Final = "".join(rf"(?<!\b{word} )" for word in _BEFORE_NOUN)
_ENDING: Final = r"(?:e|s|es|ed|d|ing|[bdglmnprt]ing|[bdglmnprt]ed|ation|y|ies|ied)?"

#: The rest of a sentence, as short as it may be.
_REST: Final = r"(?:(?![.?!](?:\s|$)).){0,200}?"


def asks_for(kind: Kind, texts: Iterable[str]) -> bool:
    """Whether a verb in *texts* asks for *kind*. As a noun, or as a request to be told, it does not."""
    asking = _asking(kind.asked_by, kind.made_by, kind.objects)
    return any(asking.search(_ANSWER.sub(" ", _plain(text))) for text in texts)


def hands_over(phrases: tuple[str, ...], texts: Iterable[str]) -> bool:
    """Whether one of *phrases* in *texts* leaves to another text what is to be done."""
    return any(re.search(rf"\b{re.escape(phrase)}\b", _plain(text)) for text in texts for phrase in phrases)


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("e-mail", "email").split())


@lru_cache(maxsize=256)
def _asking(verbs: tuple[str, ...], makers: tuple[str, ...], objects: tuple[str, ...]) -> re.Pattern[str]:
    asking = rf"{_NOT_NOUN}\b(?:{_any(verbs)}){_ENDING}\b"
    if makers and objects:
        asking += rf"|{_NOT_NOUN}\b(?:{_any(makers)}){_ENDING}\b{_REST}\b(?:{_any(objects)})s?\b"
    return re.compile(asking)


def _any(stems: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, stems))
