"""The bracket: ``agent_startup``, any number of runs, ``agent_shutdown``."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from types import TracebackType
from typing import Any, Literal

import anyio
from agent_hooks import InterceptionPoint, InterceptionRecord

from hookbus_client.agent.definition import Definition, Delivery
from hookbus_client.agent.errors import SessionMisused
from hookbus_client.agent.history import History, InMemoryHistory
from hookbus_client.agent.installation import live
from hookbus_client.agent.loop import Run, RunResult

Role = Literal["user", "system", "external"]

#: How long ``agent_shutdown`` may take once the session is being cancelled.
SHUTDOWN_GRACE_S = 5.0


class RunStream:
    """The text of a run as it may be released: iterate it, then read ``result``.

    An early end needs :meth:`aclose` (or ``async with``): it cancels the run, and the session
    closes with ``cancelled``.
    """

    def __init__(self, run: Run, segments: AsyncGenerator[str, None]) -> None:
        self._run = run
        self._segments = segments

    @property
    def result(self) -> RunResult:
        """The run's result. Raises :class:`SessionMisused` before the stream has ended well."""
        if self._run.result is None:
            raise SessionMisused("the stream has no result yet; iterate it to its end")
        return self._run.result

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> str:
        return await anext(self._segments)

    async def aclose(self) -> None:
        """End the run now. May be called at any time, also after its end."""
        await self._segments.aclose()

    async def __aenter__(self) -> RunStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Session:
    """One session of an agent, an async context manager that is entered once.

    ``agent_startup`` is emitted on entering; when it is denied, only ``agent_shutdown`` follows
    and :class:`agent_hooks.InterceptionBlocked` is raised (§6.1a). ``agent_shutdown`` is emitted
    on every exit: ``completed``, ``error`` when an exception leaves the block, ``cancelled`` when
    the task is cancelled. Runs of one session follow one another and share its history.
    """

    def __init__(
        self, definition: Definition, history: History | None = None, session_id: str | None = None
    ) -> None:
        self.id = session_id or str(uuid.uuid4())
        self.history: History = history if history is not None else InMemoryHistory()
        self._definition = definition
        self._emissions = definition.emissions(self.id)
        self._claim = ExitStack()
        self._open = False
        self._busy = False

    @property
    def records(self) -> tuple[InterceptionRecord, ...]:
        """Every record of this session so far, in the order of their completion."""
        return tuple(self._emissions.records)

    async def __aenter__(self) -> Session:
        self._claim.enter_context(live(self._definition.emitter, self.id))
        try:
            await self._emissions.emit(
                InterceptionPoint.AGENT_STARTUP,
                self.id,
                tools_registered=sorted(self._definition.tools),
            )
        except BaseException as error:
            await self._close(error)
            raise
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(error)

    async def _close(self, error: BaseException | None) -> None:
        self._open = False
        cancelled = isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit)
        reason = "completed" if error is None else "cancelled" if cancelled else "error"
        with self._claim:
            if not cancelled:
                # The emitter's own deadlines bound this one.
                await self._emissions.close(reason)
                return
            with anyio.move_on_after(SHUTDOWN_GRACE_S, shield=True):
                await self._emissions.close(reason)

    async def run(self, content: Any, *, role: Role = "user") -> RunResult:
        """Answer *content* and return the result.

        Raises :class:`agent_hooks.InterceptionBlocked` when the input, a model call or the output
        is denied, :class:`MaxTurnsExceeded`, :class:`ModelFailed`, and what a hook raises.
        """
        run = self.prepare(content, role, "whole")
        async with aclosing(self.segments(run)) as released:
            async for _ in released:
                pass
        assert run.result is not None  # segments() ends with a result or raises
        return run.result

    def stream(self, content: Any, *, role: Role = "user", delivery: Delivery = "buffered") -> RunStream:
        """Answer *content* as a stream of the text that its verdicts permit."""
        run = self.prepare(content, role, delivery)
        return RunStream(run, self.segments(run))

    def prepare(self, content: Any, role: Role, delivery: Delivery) -> Run:
        """Return a run of this session that has not begun."""
        return Run(
            self._definition,
            self._emissions,
            self.history,
            session_id=self.id,
            content=content,
            role=role,
            delivery=delivery,
        )

    async def segments(self, run: Run) -> AsyncGenerator[str, None]:
        """Drive *run* inside this session. Raises :class:`SessionMisused` outside its bracket."""
        if not self._open:
            raise SessionMisused("the session is not open; use it inside its 'async with' block")
        if self._busy:
            raise SessionMisused("another run of this session is in progress; runs follow one another")
        self._busy = True
        try:
            async with aclosing(run.segments()) as released:
                async for text in released:
                    yield text
        finally:
            self._busy = False

    async def bracketed(self, run: Run) -> AsyncGenerator[str, None]:
        """Drive *run* as the only one of this session, bracket included."""
        async with self, aclosing(self.segments(run)) as released:
            async for text in released:
                yield text
