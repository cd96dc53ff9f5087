"""Rewrites a value: every piece of it that is found is gone, and everything else is as it was."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from hookbus import HookbusError, Undecodable, codec
from hookbus.codec import Json
from hookbus_interceptors.recent import Recent
from hookbus_interceptors.redact.found import Finder, apart
from hookbus_interceptors.redact.plain_text import plain
from hookbus_interceptors.redact.tokens import without_tokens

#: Returns what stands for a piece of a kind.
Replace: TypeAlias = Callable[[str, str], str]

#: A name that may be told; another may be payload.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: A member that a path can lead to (§5.2).
_MEMBER: Final = re.compile(r"[A-Za-z0-9_-]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: What is no number below this has too few digits for anything that is looked for.
_LEAST_NUMBER: Final = 10**6
#: How often a text is looked through.
_MOST_TIMES: Final = 8
#: The step from a string to the JSON in it.
_INSIDE: Final = ""
#: The step to a name itself.
_A_NAME: Final = "a name"
#: Names and indices on the way to a value; ``*`` stands for any.
Path: TypeAlias = tuple[str | int, ...]


class Refused(HookbusError):
    """A piece of ``kind`` stands at ``place``, and may not pass in any form."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        super().__init__(f"{place} has {kind} in it")


class Unsettled(HookbusError):
    """After every change of the text at ``place`` there was something else to find: it was made to have it so."""

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(f"{place} still has something to redact after {_MOST_TIMES} changes")


class Redaction:
    """The rewriting of one value. ``counts`` are the pieces that were found, by their kind.

    A kind of *refused* ends it, one of *kept* stays. What stands at a path of *fixed* is the protocol's own. What
    *clean* knows is not looked through again; it is told of each text with nothing in it, for these finders alone.
    """

    def __init__(
        self,
        finders: Iterable[Finder],
        replace: Replace,
        *,
        refused: frozenset[str] = frozenset(),
        kept: frozenset[str] = frozenset(),
        fixed: frozenset[Path] = frozenset(),
        clean: Recent[bool] | None = None,
    ) -> None:
        self._finders = tuple(finders)
        self._replace = replace
        self._refused = refused
        self._kept = kept
        self._fixed = fixed
        self._clean = Recent[bool](0) if clean is None else clean
        self._reading = ",".join(sorted(kept))
        self.counts: Counter[str] = Counter()

    def value(self, value: Json, path: Path = (), name: str = "") -> Json:
        """Return *value* rewritten: the same object where nothing is found. Raises :class:`Refused`."""
        if isinstance(value, dict):
            return self._members(value, path)
        if isinstance(value, list):
            items = [self.value(item, (*path, index), name) for index, item in enumerate(value)]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if self._fixed and tuple("*" if isinstance(step, int) else step for step in path) in self._fixed:
            return value
        if isinstance(value, str):
            return self._string(value, path, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) < _LEAST_NUMBER:
            return value
        written = str(int(value)) if value == int(value) else str(value)
        rewritten = self._text(written, path, name)
        return value if rewritten is written else rewritten

    def _members(self, value: dict[str, Json], path: Path) -> Json:
        members: dict[str, Json] = {}
        changed = False
        for name, member in value.items():
            # What a name holds is told no more than what stands under it.
            told = self._text(name, (*path, _A_NAME), "")
            new = self.value(member, (*path, told), _plain_name(told))
            changed = changed or told is not name or new is not member
            members[_free(told, members if told is name else members.keys() | value.keys())] = new
        return members if changed else value

    def _string(self, text: str, path: Path, name: str) -> str:
        if text.lstrip()[:1] in ("{", "["):
            try:
                inner = codec.parse_strictly(text.encode())
            except (Undecodable, UnicodeEncodeError):
                # What is read in two ways, such as a name that comes twice, is a text.
                return self._text(text, path, name)
            return self._json(text, inner, path, name)
        return self._text(text, path, name)

    def _json(self, text: str, inner: Json, path: Path, name: str) -> str:
        """Return *text*, which says *inner* as JSON, rewritten; it stays JSON."""
        redacted = self.value(inner, (*path, _INSIDE), name)
        if redacted is inner:
            return text
        counts = self.counts.copy()
        written = self._text(text, path, name)
        self.counts = counts
        # As it was written, but for the pieces, where that says the same.
        return written if _says(written, redacted) else msgspec.json.encode(redacted).decode()

    def _text(self, text: str, path: Path, name: str) -> str:
        # Once more after each change: what stood in the way of a piece may be gone now.
        for _ in range(_MOST_TIMES):
            # What it is called and what may stay decide what is found. The length keeps name and text apart.
            known_as = f"{self._reading} {len(name)} {name}{text}"
            if self._clean.find(known_as):
                return text
            rewritten = self._once(text, path, name)
            if rewritten is text:
                self._clean.keep(known_as, True)
                return text
            text = rewritten
        raise Unsettled(place_of(path))

    def _once(self, text: str, path: Path, name: str) -> str:
        shown = plain(text)
        searched = without_tokens(shown.text)
        every = (each for finder in self._finders for each in finder.find(searched, name))
        found = [each for each in every if each.kind not in self._kept and searched[each.start : each.end].strip()]
        for each in found:
            if each.kind in self._refused:
                raise Refused(each.kind, place_of(path))
        parts = []
        done = 0
        for each in apart(found):
            start, end = shown.span(each.start, each.end)
            parts += [text[done:start], self._replace(each.kind, shown.text[each.start : each.end])]
            done = end
            self.counts[each.kind] += 1
        return "".join([*parts, text[done:]]) if parts else text


def change(before: Json, after: Json) -> tuple[str, Json]:
    """Return the path of the smallest part of *before* that holds every change, and what *after* has there."""
    path = "$target"
    while True:
        if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
            changed = [name for name in before if before[name] is not after[name]]
            if len(changed) != 1 or not _MEMBER.fullmatch(changed[0]):
                return path, after
            path += f".{changed[0]}"
            before, after = before[changed[0]], after[changed[0]]
        elif isinstance(before, list) and isinstance(after, list):
            places = [index for index, item in enumerate(before) if item is not after[index]]
            if len(places) != 1:
                return path, after
            path += f"[{places[0]}]"
            before, after = before[places[0]], after[places[0]]
        else:
            return path, after


def place_of(path: Path) -> str:
    """Return *path* as it may be told: ``recipients[0]``."""
    told = ""
    for step in path:
        if isinstance(step, int):
            told += f"[{step}]"
        elif step != _INSIDE:
            told += ("." if told else "") + (step if _NAME.fullmatch(step) else "…")
    return told or "the target"


def _plain_name(name: str) -> str:
    """Return *name* in lower case with ``_`` between its words. A token in it names nothing."""
    return _CAMEL.sub("_", without_tokens(name)).casefold().replace("-", "_")


def _free(name: str, taken: Iterable[str]) -> str:
    """Return *name*, with a number where it is taken: no member is lost because two names became one."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free


def _says(text: str, value: Json) -> bool:
    try:
        return bool(codec.parse_strictly(text.encode()) == value)
    except Undecodable:
        return False
