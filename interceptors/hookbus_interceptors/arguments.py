"""The values of a tool call's arguments, at any depth, each with the place where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from hookbus.codec import Json

#: A name that may be told to a person; another may be payload.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Argument(msgspec.Struct, frozen=True):
    """One string, number, boolean or null of the arguments."""

    #: The names on the way to it, in lower case with ``_`` between words.
    names: tuple[str, ...]
    #: Where it stands, to be told: ``recipients[0]``. Names that are none are left out.
    place: str
    value: str | int | float | bool | None

    @property
    def name(self) -> str:
        """The name nearest to the value."""
        return self.names[-1] if self.names else ""


def arguments_of(args: Json) -> Iterator[Argument]:
    """Yield every value in *args*, and every name in it that does not look like one, as it may be data too."""
    yield from _walk(args, (), "")


def _walk(value: Json, names: tuple[str, ...], place: str) -> Iterator[Argument]:
    if isinstance(value, dict):
        for name, member in value.items():
            inner = (*names, _CAMEL.sub("_", name).casefold().replace("-", "_"))
            told = name if _NAME.fullmatch(name) else "…"
            if told != name:
                yield Argument(names, f"a name in {place or 'the arguments'}", name)
            yield from _walk(member, inner, f"{place}.{told}" if place else told)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _walk(member, names, f"{place}[{index}]")
    else:
        yield Argument(names, place or "the arguments", value)
