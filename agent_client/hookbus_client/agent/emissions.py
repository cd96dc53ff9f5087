"""The emissions of one session: contexts built in order, verdicts obeyed, labels carried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from agent_hooks import (
    AgentContext,
    AgentContextBuilder,
    EmitOutcome,
    HostError,
    InterceptionBlocked,
    InterceptionPoint,
    InterceptionRecord,
)

from hookbus_client.agent.errors import PointRepeated
from hookbus_client.agent.labels import Labels, attach, earned
from hookbus_client.agent.projection import Unprojectable, project


class Emitter(Protocol):
    """What an agent needs of an emitter; the SDK's and ``BusEmitter`` both are one."""

    async def emit(self, ctx: AgentContext, /) -> EmitOutcome: ...

    async def emit_unchecked(self, ctx: AgentContext, /) -> InterceptionRecord: ...

    def record_host_failure(
        self,
        point: InterceptionPoint,
        detail: str | None = None,
        *,
        session_id: str | None = None,
        sequence: int | None = None,
        timestamp: str | None = None,
    ) -> InterceptionRecord: ...


class IncrementalEmitter(Emitter, Protocol):
    """An emitter that incremental mediation can use."""

    def record_host_denial(
        self, ctx: AgentContext, error: HostError, detail: str | None = None, /
    ) -> InterceptionRecord:
        """Append and return the record of a deny that the host itself pronounces on *ctx*.

        No interceptor is asked. *detail* is payload-free. (§11, §12.1.)
        """
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """What an emission that proceeded leaves: the value the action consumes, and the labels earned."""

    target: Any
    labels: Labels = ()


class Emissions:
    """Emits the points of one session; with no emitter, lets everything pass unseen.

    Every context is a private copy and takes the next sequence number (§4.1). ``turn`` goes into
    ``session.turn``; ``records`` holds what this session's emissions recorded.
    """

    def __init__(self, emitter: Emitter | None, builder: AgentContextBuilder, namespaces: Sequence[str]) -> None:
        self.records: list[InterceptionRecord] = []
        self.turn = 0
        self._emitter = emitter
        self._builder = builder
        self._namespaces = tuple(namespaces)
        self._emitted: set[tuple[InterceptionPoint, tuple[str, ...]]] = set()

    async def emit(
        self,
        point: InterceptionPoint,
        /,
        *once: str,
        sources: Labels = (),
        beside: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Passage:
        """Emit *point* and return what may proceed. Raises :class:`agent_hooks.InterceptionBlocked`.

        *fields* are those of the builder's method of the same name; *beside* are optional fields that stand
        beside them (§4.5). *once* names the call: a second emission for it raises :class:`PointRepeated`. A
        context that cannot be built is recorded and blocked (§6.3); in ``evaluate_only`` it is recorded and
        passes.
        """
        if once:
            if (point, once) in self._emitted:
                raise PointRepeated(point, once)
            self._emitted.add((point, once))
        try:
            context = self._context(point, sources, project(fields))
            context.update(project(dict(beside or {})))
        except Unprojectable as failure:
            self.host_failure(point, failure.type_name)
            return Passage(self._context(point, (), fields)["target"])
        if self._emitter is None:
            return Passage(context["target"])
        try:
            outcome = await self._emitter.emit(context)
        except InterceptionBlocked as blocked:
            self.records.append(blocked.result)
            raise
        self.records.append(outcome.record)
        return Passage(outcome.target, earned(outcome.record))

    def host_failure(self, point: InterceptionPoint, type_name: str) -> None:
        """Record that no valid context exists for *point*; raises unless the mode lets it proceed.

        *type_name* names the fault and holds no payload (§10.3).
        """
        if self._emitter is None:
            return
        envelope = self._context(InterceptionPoint.AGENT_SHUTDOWN, (), {"reason": "error"})
        record = self._emitter.record_host_failure(
            point,
            type_name,
            session_id=envelope["session"]["id"],
            sequence=envelope["sequence"],
            timestamp=envelope["timestamp"],
        )
        self._settle(record)

    def residue(self, **fields: Any) -> None:
        """Deny, in the host's own name, a streamed response that no emission covers whole (§12.1).

        *fields* are those of ``post_model_call``. Raises unless the mode lets it proceed.
        """
        if self._emitter is None:
            return
        context = self._context(InterceptionPoint.POST_MODEL_CALL, (), project(fields))
        emitter = cast("IncrementalEmitter", self._emitter)
        self._settle(emitter.record_host_denial(context, HostError.STREAMING_UNSUPPORTED))

    async def close(self, reason: str, **summary: int) -> None:
        """Emit ``agent_shutdown``. Whatever the verdict, there is nothing left to prevent (§6.1a)."""
        if self._emitter is not None:
            fields = {"reason": reason, **summary}
            context = self._context(InterceptionPoint.AGENT_SHUTDOWN, (), fields)
            self.records.append(await self._emitter.emit_unchecked(context))

    def _settle(self, record: InterceptionRecord) -> None:
        self.records.append(record)
        if not record.proceeds:
            raise InterceptionBlocked(record)

    def _context(self, point: InterceptionPoint, sources: Labels, fields: dict[str, Any]) -> AgentContext:
        context: AgentContext = getattr(self._builder, point.value)(**fields)
        if self.turn:
            context["session"]["turn"] = self.turn
        attach(context, sources, self._namespaces)
        return context
