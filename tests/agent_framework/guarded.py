"""An Agent Framework agent whose interceptors answer from workers over a real NATS server."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from agent_framework import Agent, AgentSession, create_agent_hooks_middleware_from_emitter
from agent_hooks import ALLOW, AgentContextBuilder, Decision, Transform, Verdict

import hookbus
from hookbus_client import BusEmitter
from tests.conformance.deployment import Deployment


@dataclass
class At:
    """Answers *verdict* at *point* and allows elsewhere; keeps every context it was shown."""

    point: str
    verdict: Verdict | dict[str, Any] | Callable[[dict[str, Any]], Verdict | dict[str, Any]]
    contexts: list[dict[str, Any]] = field(default_factory=list)

    def intercept(self, context: dict[str, Any]) -> Verdict | dict[str, Any]:
        self.contexts.append(context)
        if context["interception_point"] != self.point:
            return ALLOW
        return self.verdict(context) if callable(self.verdict) else self.verdict

    def shown(self, point: str) -> list[dict[str, Any]]:
        return [context for context in self.contexts if context["interception_point"] == point]


@dataclass(frozen=True)
class Guard:
    """One emitter over the bus, and the agents that live under it."""

    emitter: BusEmitter
    bus: hookbus.Connection

    def agent(self, client: Any, tools: Sequence[Any] = (), **kwargs: Any) -> Agent:
        """A real Agent under the bundle, which stands first, outermost."""
        builder = AgentContextBuilder(agent_id="guarded", framework="agent-framework", session_id=uuid4().hex)
        with warnings.catch_warnings():
            # The framework marks its own feature as experimental with a warning.
            warnings.filterwarnings("ignore", message=r".*experimental")
            bundle = create_agent_hooks_middleware_from_emitter(self.emitter, builder)
        return Agent(client, tools=list(tools), middleware=[bundle], **kwargs)

    @property
    def points(self) -> list[str]:
        return [record.interception_point.value for record in self.emitter.results]


async def run(agent: Agent, text: str, *, stream: bool, session: AgentSession | None = None) -> None:
    """One turn, to its end, whole or streamed."""
    if stream:
        await agent.run(text, session=session, stream=True).get_final_response()
    else:
        await agent.run(text, session=session)


def replacing(path: str, value: Any) -> Verdict:
    return Verdict(decision=Decision.TRANSFORM, transform=Transform(path=path, value=value))


@asynccontextmanager
async def guarded(url: str, /, resolver: Any = None, **interceptors: Any) -> AsyncIterator[Guard]:
    """Deploy each interceptor in a worker of its own, under its keyword's name, and bind them in that order."""
    deployment = Deployment(url)
    emitter = BusEmitter(resolver=resolver)
    for name, interceptor in interceptors.items():
        emitter.register(deployment.remote(name, interceptor), name=name)
    async with deployment:
        yield Guard(emitter, deployment.bus)
