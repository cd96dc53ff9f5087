"""Interceptors that share a store, in this process and in others, with a clock that the test sets."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.codec import Json
from hookbus_interceptors.authoring.testing import AsyncTestClient
from hookbus_interceptors.budget import Budget, BudgetConfiguration
from hookbus_interceptors.rate_limit import RateLimit, RateLimitConfiguration

#: 2026-11-30T12:00:00Z.
NOON_MS = 1_796_040_000_000
DAY_MS = 86_400_000
#: Names the file with the time of workers in processes of their own.
CLOCK = "TEST_CLOCK"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class ClockFile:
    """The same for workers in processes of their own: a file that they read at every question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._now_ms = NOON_MS
        self.move(0)

    def move(self, ms: int) -> None:
        self._now_ms += ms
        written = self.path.with_suffix(".new")
        written.write_text(str(self._now_ms))
        written.replace(self.path)


def _read_clock() -> int:
    return int(Path(os.environ[CLOCK]).read_text())


class ClockedBudget(Budget):
    """A budget whose clock is the file that ``TEST_CLOCK`` names."""

    def __init__(self, configuration: BudgetConfiguration) -> None:
        super().__init__(configuration, now_ms=_read_clock)


class ClockedRateLimit(RateLimit):
    """A rate limit whose clock is the file that ``TEST_CLOCK`` names."""

    def __init__(self, configuration: RateLimitConfiguration) -> None:
        super().__init__(configuration, now_ms=_read_clock)


class Sharing(Protocol):
    """An interceptor with a lifespan."""

    def lifespan(self, bus: hookbus.Connection, /) -> Any: ...


@asynccontextmanager
async def opened(url: str, tenant: str, *interceptors: Sharing) -> AsyncIterator[list[AsyncTestClient]]:
    """Test clients of *interceptors*, each as a worker of its own with a connection of its own."""
    async with AsyncExitStack() as stack:
        for interceptor in interceptors:
            bus = await stack.enter_async_context(hookbus.connect(url, tenant=tenant))
            await stack.enter_async_context(interceptor.lifespan(bus))
        yield [AsyncTestClient(interceptor) for interceptor in interceptors]


def tool_call(*, agent: str = "travel", session: str = "session", call: str = "call") -> dict[str, Json]:
    """The context of a tool call that is about to be made."""
    builder = AgentContextBuilder(agent_id=agent, framework="tests", session_id=session)
    return builder.pre_tool_call(call_id=call, name="book", args={})


def tool_result(*, agent: str = "travel", session: str = "session", call: str = "call") -> dict[str, Json]:
    """The context of a tool call that was made."""
    builder = AgentContextBuilder(agent_id=agent, framework="tests", session_id=session)
    return builder.post_tool_call(call_id=call, name="book", args={}, value="booked", is_error=False)


def allowed(verdicts: Iterable[object]) -> int:
    """How many of *verdicts*, as they came over the wire, allow; every other one must be a deny."""
    decisions = [verdict["decision"] if isinstance(verdict, dict) else verdict for verdict in verdicts]
    assert set(decisions) <= {"allow", "deny"}, decisions
    return decisions.count("allow")
