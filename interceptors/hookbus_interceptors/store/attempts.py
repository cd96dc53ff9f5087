"""Telling a second attempt at a question from another question."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from hookbus.codec import Json
from hookbus_interceptors.current import question


def question_name(context: dict[str, Json]) -> str:
    """Return one name for every attempt at the question that is being answered, and for no other question.

    The id alone is whatever its sender wrote: the same one on another question would let that one pass uncounted.
    """
    return digest(question().id, context)


def digest(*parts: Any) -> str:
    """Return 96 bits of the digest of *parts*, which are JSON: agents choose them, and entries are to be small."""
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:24]
