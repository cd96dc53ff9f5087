"""The records in what a tool gave: identifiers and names in their own fields, apart from what strangers wrote."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml  # type: ignore[import-untyped]  # its stubs are another distribution

from hookbus.codec import Json

#: Names of fields and arguments whose words are free, because whoever reads them decides.
CONTENT_NAMES: Final = tuple(
    pattern
    for name in (
        *("body", "content", "contents", "text", "message", "description", "subject", "title", "note", "notes"),
        *("comment", "summary", "caption", "reason", "memo", "location", "label", "tags", "snippet", "html"),
    )
    for pattern in (name, f"*_{name}")
)
#: Tools that give pages and documents: nothing in their results is a record, whatever it looks like.
DOCUMENT_TOOLS: Final = ("read_file*", "*document*", "*_page*", "*web*", "*url*", "*http*", "*html*", "fetch_*",
                         "open_*", "browse*", "download*", "crawl*", "scrape*")  # fmt: skip
#: Longer ones are no names of fields.
_LONGEST_NAME: Final = 128
#: Texts beyond this are not looked through: nothing in them is a record.
MAX_TEXT: Final = 1_000_000
_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def fields_in(text: str, content_names: tuple[str, ...] = CONTENT_NAMES) -> frozenset[str]:
    """Return the values of the fields in *text*, JSON or YAML, but for those with one of *content_names*.

    A field counts only whole: a value inside a sentence is no field. Text that is neither has none.
    """
    tree = _parsed(text)
    return frozenset(_fields(tree, content_names)) if isinstance(tree, dict | list) else frozenset()


def _parsed(text: str) -> Json:
    if len(text) > MAX_TEXT:
        return None
    try:
        tree: Json = msgspec.json.decode(text)
        return tree
    except (msgspec.DecodeError, RecursionError):
        pass
    # An alias can make a small text an enormous tree.
    if "*" in text and any(isinstance(token, yaml.AliasToken) for token in _tokens(text)):
        return None
    try:
        # The base loader makes strings, lists and dicts, nothing else.
        tree = yaml.load(text, Loader=_LOADER)
        return tree
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def _tokens(text: str) -> Iterator[object]:
    try:
        yield from yaml.scan(text, Loader=_LOADER)
    except yaml.YAMLError:
        return


def _fields(tree: Json, content_names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(tree, dict):
        for name, member in tree.items():
            if not _is_free(str(name), content_names):
                yield from _fields(member, content_names)
    elif isinstance(tree, list):
        for member in tree:
            yield from _fields(member, content_names)
    elif tree is not None and not isinstance(tree, bool):
        yield comparable(tree)


# The same few names come in every record of a list.
@lru_cache(maxsize=4096)
def _is_free(name: str, content_names: tuple[str, ...]) -> bool:
    return len(name) > _LONGEST_NAME or any(fnmatchcase(name.casefold(), pattern) for pattern in content_names)


def comparable(value: Json) -> str:
    """Return *value* as it is compared: a whole number in one form, text without the space around it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().casefold()
