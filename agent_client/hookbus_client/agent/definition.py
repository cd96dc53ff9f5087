"""What an agent is made of, fixed when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent_hooks import AgentContextBuilder

from hookbus_client.agent.emissions import Emissions, Emitter
from hookbus_client.agent.events import Watchers
from hookbus_client.agent.hooks import Hooks
from hookbus_client.agent.model import Model
from hookbus_client.agent.tools import Tool

#: What a ``host_error:*`` deny at a tool call does to the run (§13.1).
Posture = Literal["continue", "terminate"]
#: How a stream reaches the caller: whole after the verdict at ``output``, or segment by segment.
Streaming = Literal["buffered", "incremental"]
#: When history becomes durable: with the run's output, or after each model call and its tools.
Durable = Literal["run", "model_call"]
#: How one run fetches and releases its responses; ``whole`` asks the model for no stream at all.
Delivery = Literal["whole", "buffered", "incremental"]


@dataclass(frozen=True, slots=True)
class Definition:
    """The checked pieces of one agent."""

    model: Model
    emitter: Emitter | None
    agent_id: str
    framework: str
    instructions: str | None
    tools: Mapping[str, Tool]
    hooks: Hooks
    watchers: Watchers
    max_turns: int
    posture: Posture
    durable: Durable
    namespaces: tuple[str, ...]
    fields: Mapping[str, Any]

    def emissions(self, session_id: str) -> Emissions:
        """Return the emissions of a new session, numbered from 0."""
        builder = AgentContextBuilder(
            agent_id=self.agent_id, framework=self.framework, session_id=session_id
        ).with_l2(**self.fields)
        return Emissions(self.emitter, builder, self.namespaces)
