"""Which captured contexts are replayed, and in which order: session by session, each by its sequence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec
from agent_hooks import InterceptionPoint

from hookbus.codec import Json
from hookbus_interceptors.capture.reading import Captured, Place

_RANGE: Final = 2**64


class Selection(msgspec.Struct, frozen=True):
    """What is replayed of all that was captured."""

    #: None for all.
    points: frozenset[InterceptionPoint] | None = None
    #: The share of sessions, from 0 to 1; the same ones each time.
    share: float = 1.0

    def takes(self, point: str, session: str) -> bool:
        """Whether a context of *session* at *point* is replayed."""
        drawn = int.from_bytes(hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        return (self.points is None or point in self.points) and drawn < self.share * _RANGE


class Sessions:
    """The places of the records that *selection* takes, by session. A second attempt is taken once."""

    def __init__(self, captured: Captured, selection: Selection) -> None:
        #: Records left out because their question was captured before.
        self.repeated = 0
        self._places: dict[tuple[str, ...], list[tuple[int, int, Place]]] = {}
        seen: set[tuple[str, str]] = set()
        for record in captured.records():
            agent, session = identifier(record.context, "agent"), identifier(record.context, "session")
            if (agent, record.question) in seen:
                self.repeated += 1
                continue
            seen.add((agent, record.question))
            if selection.takes(str(record.context.get("interception_point")), session):
                sequence = record.context.get("sequence")
                order = sequence if isinstance(sequence, int) else -1
                key = (identifier(record.context, "tenant"), agent, session)
                self._places.setdefault(key, []).append((order, record.at_ms, record.place))

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def __iter__(self) -> Iterator[list[Place]]:
        for entries in self._places.values():
            yield [place for *_, place in sorted(entries, key=lambda entry: entry[:2])]


def identifier(context: dict[str, Json], block: str) -> str:
    """Return the ``id`` of a *block* of *context*; empty where it has none."""
    found = context.get(block)
    named = found.get("id") if isinstance(found, dict) else None
    return named if isinstance(named, str) else ""
