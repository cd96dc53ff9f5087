"""Names of tools: one spelling for all the ways in which one name arrives, and patterns over it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

#: What stands between a server's name and a tool's own: ``mcp__server__tool``, ``server.tool``, ``server/tool``.
_QUALIFIER: Final = re.compile(r"__|[./:]")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|\d+")


def spelled(name: str) -> str:
    """Return *name* as it is compared: NFKC, case folded, ``_`` for ``-`` and for spaces.

    A letter of another script that only looks like an ASCII one stays what it is; see :func:`is_plain_ascii`.
    """
    return unicodedata.normalize("NFKC", name).casefold().replace("-", "_").replace(" ", "_")


def own_name(name: str) -> str:
    """Return the part of *name* that is the tool's own, spelled as it is compared, without its qualifiers."""
    return _QUALIFIER.split(spelled(name))[-1]


def words(name: str) -> tuple[str, ...]:
    """Return the words of the tool's own name in lower case: ``mcp__mail__sendEmail`` is ``send``, ``email``."""
    own = _QUALIFIER.split(unicodedata.normalize("NFKC", name))[-1]
    return tuple(word.casefold() for word in _WORD.findall(own))


def is_plain_ascii(name: str) -> bool:
    """Whether *name* is made of visible ASCII once compatibility forms are resolved.

    Providers permit nothing else in the name of a tool, so that another letter is there to look like one.
    """
    folded = unicodedata.normalize("NFKC", name)
    return folded.isascii() and folded.isprintable()


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern (``*``, ``?``, ``[…]``) meets the tool's own name or the whole of *name*."""
    candidates = own_name(name), spelled(name)
    return any(fnmatchcase(candidate, pattern) for pattern in patterns for candidate in candidates)


def _spell_all(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(unicodedata.normalize("NFKC", pattern).casefold().replace(" ", "_") for pattern in patterns)


#: The type of a setting that holds such patterns.
ToolPatterns: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_spell_all)]
