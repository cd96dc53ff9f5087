"""The text in a target, wherever it stands: found, cut into pieces, and replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from hookbus import HookbusError, Undecodable
from hookbus.codec import Json, parse_strictly
from hookbus_interceptors.arguments import arguments_of

#: Values that hosts and providers write themselves, the same in every conversation. Nothing is hidden in them.
PROTOCOL_WORDS: Final = frozenset(
    ["system", "developer", "user", "assistant", "tool", "function", "external", "text", "input_text",
     "output_text", "tool_use", "tool_result", "stop", "tool_calls", "length", "completed", "error", "cancelled"]
)  # fmt: skip


class NotReplaceable(HookbusError, ValueError):
    """Text that is to be replaced stands as the name of a member."""

    def __init__(self) -> None:
        super().__init__("a name cannot be replaced by a notice")


def passages(target: Json) -> dict[str, str]:
    """Return every text in *target*, each once, with the first place where it stands: ``target.content``.

    Text that is itself the JSON of an object or an array counts as what is in it: an escape would hide words from
    a classifier. Names of members count when they do not look like names.
    """
    found: dict[str, str] = {}
    for argument in arguments_of({"target": target}):
        text = argument.value
        if isinstance(text, str):
            document = _document_in(text)
            inner = (text,) if document is None else passages(document)
            found |= {each: found.get(each, argument.place) for each in inner if _says_something(each)}
    return found


def pieces(text: str, *, size: int, overlap: int) -> list[str]:
    """Return all of *text* in pieces of at most *size* characters, of which neighbours share *overlap*.

    Whatever is no longer than *overlap* stands whole in one of them.
    """
    starts = range(0, max(1, len(text) - overlap), size - overlap)
    return [text[start : start + size] for start in starts]


def replaced(value: Json, notices: Mapping[str, str]) -> Json:
    """Return *value* with each text of *notices* replaced by its notice. Raises :class:`NotReplaceable`."""
    if isinstance(value, str):
        if value in notices:
            return notices[value]
        document = _document_in(value)
        if document is None:
            return value
        changed = replaced(document, notices)
        return value if changed == document else msgspec.json.encode(changed).decode()
    if isinstance(value, dict):
        if notices.keys() & value.keys():
            raise NotReplaceable
        return {name: replaced(member, notices) for name, member in value.items()}
    if isinstance(value, list):
        return [replaced(member, notices) for member in value]
    return value


def _says_something(text: str) -> bool:
    return text not in PROTOCOL_WORDS and not text.isspace() and text != ""


def _document_in(text: str) -> Json:
    """Return the object or array that *text* is the JSON of; None where it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_strictly(text.encode("utf-8"))
    except Undecodable:
        return None
