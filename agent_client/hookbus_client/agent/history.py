"""What an agent remembers: messages and the labels that belong to them, durable once permitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hookbus_client.agent.labels import Labels


@dataclass(frozen=True, slots=True)
class Entry:
    """One chat message with the labels of its data: its own and those of what it derives from."""

    message: dict[str, Any]
    labels: Labels = ()


class History(Protocol):
    """Where one conversation is kept.

    ``append`` is called with content whose covering verdict permits, and with nothing else.
    Entries of one call belong together: a tool call and its results are never torn apart.
    """

    async def load(self) -> Sequence[Entry]:
        """Return the conversation so far, oldest first."""
        ...

    async def append(self, entries: Sequence[Entry]) -> None:
        """Make *entries* durable. A run does not return before this has."""
        ...


class InMemoryHistory:
    """A history that lasts as long as the object."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = list(entries)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages alone, as chat completions take them."""
        return [entry.message for entry in self._entries]

    async def load(self) -> Sequence[Entry]:
        return tuple(self._entries)

    async def append(self, entries: Sequence[Entry]) -> None:
        self._entries.extend(entries)
