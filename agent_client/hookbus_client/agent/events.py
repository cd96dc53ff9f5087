"""Events: what a watcher sees. They only watch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hookbus_client.agent.boundary import watch
from hookbus_client.agent.projection import Unprojectable, project

EventName = Literal[
    "run-start", "turn-start", "model-start", "model-end", "tool-start", "tool-end", "turn-end", "run-end"
]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as verdicts and hooks left it.

    ``facts`` by name: ``model-start`` messages; ``model-end`` tool_calls, finish_reason, usage;
    ``tool-start`` call (only for a tool that is about to run); ``tool-end`` call, result,
    is_error (for every call, with what the model reads); ``turn-end`` message; ``run-end``
    outcome (completed, blocked, error, cancelled) and, when completed, output. A final answer is
    in no event before the verdict at ``output`` permits it (§12.1a).
    """

    name: EventName
    agent_id: str
    session_id: str
    turn: int
    facts: Mapping[str, Any] = field(default_factory=dict)


Watcher = Callable[[Event], object]


class Watchers:
    """The watchers of one agent. Whatever they do to an event, or raise, changes nothing."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        for watcher in watchers:
            if inspect.iscoroutinefunction(watcher):
                raise TypeError("a watcher is a plain function: it only watches, so nobody waits for it")
        self._watchers = tuple(watchers)

    def tell(self, name: EventName, agent_id: str, session_id: str, turn: int, **facts: Any) -> None:
        """Show an event to every watcher, each with its own copy of the facts."""
        for watcher in self._watchers:
            try:
                own = project(facts)
            except Unprojectable:
                own = {}
            watch(watcher, Event(name, agent_id, session_id, turn, own))
