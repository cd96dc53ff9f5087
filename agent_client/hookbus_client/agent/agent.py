"""The agent: pieces checked once, sessions and runs made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hookbus_client.agent import installation, labels
from hookbus_client.agent.definition import Definition, Delivery, Durable, Posture, Streaming
from hookbus_client.agent.emissions import Emitter
from hookbus_client.agent.events import Watcher, Watchers
from hookbus_client.agent.history import History
from hookbus_client.agent.hooks import Hooks
from hookbus_client.agent.loop import RunResult
from hookbus_client.agent.model import Model
from hookbus_client.agent.session import Role, RunStream, Session
from hookbus_client.agent.tools import Tool, ToolResult, tool


class Agent:
    """A small, complete agent that emits every point of AGENT-HOOKS-0.1 around what it does.

    *emitter* is anything with the SDK emitter's methods; None means that nothing is intercepted,
    for comparison. *tools* are functions, sync or async, or :class:`Tool` objects. *posture* is
    what a ``host_error:*`` deny at a tool call does (§13.1), by default what the emitter's
    declaration says, else ``continue``. *streaming* is how :meth:`stream` releases text.
    *history* keeps one conversation for all sessions; without it each session has its own.
    *fields* go into every context (``tenant``, ``actor``, ``trace``, ``extensions``, §4.5).
    *label_namespaces* are the extensions that bring ``source_labels`` back (§5.4).

    Raises :class:`InstallationRefused`; what that means is in :mod:`.installation`.
    """

    def __init__(
        self,
        model: Model,
        emitter: Emitter | None = None,
        *,
        agent_id: str,
        instructions: str | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        hooks: Hooks | None = None,
        watchers: Sequence[Watcher] = (),
        max_turns: int = 10,
        posture: Posture | None = None,
        streaming: Streaming = "buffered",
        history: History | None = None,
        durable: Durable = "run",
        label_namespaces: Sequence[str] = (labels.DEFAULT_NAMESPACE,),
        framework: str = "hookbus",
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        installation.check_emitter(emitter, incremental=streaming == "incremental")
        installation.check_model(model)
        named = _named(tools)
        installation.check_nesting(named, emitter)
        hooks = hooks or Hooks()
        installation.check_hooks(hooks)
        if max_turns < 1:
            raise ValueError("max_turns must be at least 1")
        self.emitter = emitter
        self.id = agent_id
        self._streaming: Streaming = streaming
        self._history = history
        self._definition = Definition(
            model=model,
            emitter=emitter,
            agent_id=agent_id,
            framework=framework,
            instructions=instructions,
            tools=named,
            hooks=hooks,
            watchers=Watchers(watchers),
            max_turns=max_turns,
            posture=installation.agreed_posture(emitter, posture),
            durable=durable,
            namespaces=labels.namespaces(label_namespaces),
            fields=dict(fields or {}),
        )

    def session(self, *, history: History | None = None, session_id: str | None = None) -> Session:
        """Return a new session, to be entered with ``async with``; it may span many runs."""
        return Session(self._definition, history or self._history, session_id)

    async def run(
        self,
        content: Any,
        *,
        role: Role = "user",
        history: History | None = None,
        session_id: str | None = None,
    ) -> RunResult:
        """Answer *content* in a session of its own; ``records`` then holds the whole session's.

        Raises what :meth:`Session.run` raises.
        """
        async with self.session(history=history, session_id=session_id) as session:
            result = await session.run(content, role=role)
        return replace(result, records=session.records)

    def stream(
        self,
        content: Any,
        *,
        role: Role = "user",
        history: History | None = None,
        session_id: str | None = None,
    ) -> RunStream:
        """Answer *content* in a session of its own, as a stream of the text its verdicts permit.

        Buffered: nothing before the verdict at ``output``, then all of it. Incremental: each
        segment on its own verdict, also of turns that go on to call tools; a later deny cannot
        retract what was released (§12.1a).
        """
        session = self.session(history=history, session_id=session_id)
        delivery: Delivery = self._streaming
        run = session.prepare(content, role, delivery)
        return RunStream(run, session.bracketed(run))

    def as_tool(self, *, name: str | None = None, description: str = "") -> Tool:
        """Return this agent as a tool of another: each call is a session of its own.

        Labels of the outer call come in with its input, and labels of the answer go out with it.
        """

        async def ask(input: str) -> ToolResult:
            result = await self.run(input)
            return ToolResult(result.output, labels=result.labels)

        spelled = name or re.sub(r"[^a-zA-Z0-9_-]", "_", self.id)
        return replace(tool(name=spelled, description=description)(ask), source=self)


def _named(tools: Sequence[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for each in tools:
        installation.check_source(each)
        made = each if isinstance(each, Tool) else tool(each)
        if made.name in named:
            raise ValueError(f"two tools are named {made.name!r}")
        named[made.name] = made
    return named
