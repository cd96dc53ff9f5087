"""A candidate beside the interceptor that decides, for a share of the sessions; then in its place.

    [interceptors.egress]
    target = "hookbus_interceptors.shadow:Shadow"

What it is for: to see what a new version would have decided, on real questions, before it decides any. What it
cannot: see what the agents would have done next. How it fails: in shadow as the current interceptor does, whatever
the candidate does; where the candidate decides, closed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Self, TypeVar

import anyio.to_thread
import msgspec
from agent_hooks import InterceptionPoint, Verdict

import hookbus
from hookbus.codec import Json
from hookbus_interceptors.calling import intercept_of
from hookbus_interceptors.configuration import Source, version_of
from hookbus_interceptors.configured import Configured, Reloading
from hookbus_interceptors.current import POLICY, decided_by, question
from hookbus_interceptors.shadow.aside import Aside, Ended
from hookbus_interceptors.shadow.configuration import ShadowConfiguration, SideConfiguration, Stage
from hookbus_interceptors.shadow.counts import CANDIDATE, CURRENT, SKIPPED, Counts, Phase
from hookbus_interceptors.shadow.errors import (
    CandidateKeepsCount,
    CandidateNotOpen,
    CandidateTimedOut,
    ShadowRestartNeeded,
)
from hookbus_interceptors.shadow.sessions import is_chosen
from hookbus_interceptors.shadow.trial import Trial

#: How long a candidate's ``lifespan`` may take to be entered.
OPENS_WITHIN_S: Final = 5.0


class _Side:
    """One of the two interceptors."""

    def __init__(self, configuration: SideConfiguration) -> None:
        self._target = configuration.target
        self.interceptor = configuration.interceptor()
        self.intercept = intercept_of(self.interceptor)
        #: None are all.
        self.points = frozenset(map(InterceptionPoint, getattr(self.interceptor, "points", ())))

    @property
    def version(self) -> str:
        """What it says of itself; its target where it says nothing."""
        return getattr(self.interceptor, "policy_version", None) or self._target


class Shadow(Configured[ShadowConfiguration]):
    """Answers as the current interceptor does, and asks the candidate, too; or lets the candidate decide.

    Answers show the version of the one that decided. It counts as an interceptor that does not tell repeats.
    """

    def __init__(self, configuration: ShadowConfiguration) -> None:
        # Not the base's: what answers at a point are the two, not methods of this class.
        self.configuration = configuration
        self.policy_version = version_of(configuration)
        self._current = _Side(configuration.current)
        self._candidate = _Side(configuration.candidate)
        if getattr(self._candidate.interceptor, "repeat_aware", False):
            raise CandidateKeepsCount(configuration.candidate.target)
        # Further points of the candidate begin when it stands in the place of the current one.
        self.points = self._current.points
        if inspect.iscoroutinefunction(self._current.intercept):
            self.intercept = self._intercept_async  # type: ignore[method-assign]  # a worker looks at which it is
        self._aside = Aside(self._candidate.interceptor, self._candidate.points, configuration.concurrency)
        self._counts = Counts()
        self._settings: hookbus.Settings | None = None
        self._phase = Phase(
            configuration.stage.value, configuration.share, self._current.version, self._candidate.version
        )
        self._counts.begin(self._phase)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], table: str = "") -> ReloadingShadow[Self]:
        """Return the trial that the file at *path* describes, made anew whenever the file changes."""
        return ReloadingShadow(cls, Source(path, table))

    def service_stats(self, point: str | None) -> dict[str, object]:
        """Return what was counted at *point*, or at all of them, for the worker's ``$SRV.STATS``."""
        return {"shadow": self._counts.shown(point)}

    # ---- a question --------------------------------------------------------------------------------

    def intercept(self, context: dict[str, Json], /) -> Any:
        """Return the answer of the one that decides, or an awaitable of it."""
        settings = self.configuration
        chosen = settings.stage is Stage.ALL or is_chosen(context, settings.share, settings.salt)
        if chosen and settings.stage is not Stage.SHADOW:
            return self._by_candidate(context)
        decided_by(self._current.version)
        self._counts.note(self._phase, question().point, CURRENT)
        trial = self._begin_trial(context) if chosen else None
        return self._current.intercept(context) if trial is None else self._by_current(context, trial)

    async def _intercept_async(self, context: dict[str, Json], /) -> Any:
        answer = Shadow.intercept(self, context)
        return await answer

    def _begin_trial(self, context: dict[str, Json]) -> Trial | None:
        point = question().point
        trial = Trial(self._aside, self._counts, self._phase, point)
        try:
            self._aside.ask(context, deadline_s=self._deadline_s(), tell=trial.end_candidate)
        except hookbus.HookbusError:
            # Whatever keeps the candidate from being asked is no matter of the question's.
            self._counts.note(self._phase, point, SKIPPED)
            return None
        return trial

    def _by_current(self, context: dict[str, Json], trial: Trial) -> Any:
        with trial:
            answer = self._current.intercept(context)
            if inspect.isawaitable(answer):
                return self._by_current_later(answer, trial)
            trial.answer(_as_sent(answer))
            return answer

    async def _by_current_later(self, awaitable: Awaitable[object], trial: Trial) -> Any:
        with trial:
            answer = await awaitable
            trial.answer(_as_sent(answer))
            return answer

    async def _by_candidate(self, context: dict[str, Json]) -> Json:
        decided_by(self._candidate.version)
        self._counts.note(self._phase, question().point, CANDIDATE)
        asked: concurrent.futures.Future[Ended] = concurrent.futures.Future()

        def tell(ended: Ended) -> None:
            # Nobody may be waiting any more.
            if asked.set_running_or_notify_cancel():
                asked.set_result(ended)

        self._aside.ask(context, deadline_s=self._deadline_s(), tell=tell)
        ended = await asyncio.wrap_future(asked)
        if ended.late:
            raise CandidateTimedOut
        POLICY.set(ended.policy)
        if ended.outcome.error is not None:
            raise ended.outcome.error
        return msgspec.json.decode(ended.outcome.body)

    def _deadline_s(self) -> float:
        return min(question().deadline_s, time.monotonic() + self.configuration.timeout_s)

    # ---- life --------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold open what the two hold.

        A candidate that cannot be opened is not asked in shadow; where it decides, it raises
        :class:`CandidateNotOpen`.
        """
        async with AsyncExitStack() as stack:
            held = getattr(self._current.interceptor, "lifespan", None)
            if held is not None:
                await stack.enter_async_context(held(bus))
            self._settings = bus.settings
            await anyio.to_thread.run_sync(self._open_candidate)
            yield

    def take_over(self, previous: Self) -> None:
        """Go on counting, and with what each of the two of *previous* holds, where it is the same or its like.

        Raises :class:`ShadowRestartNeeded`, :class:`CandidateNotOpen`, and what ``take_over`` of the current one
        raises.
        """
        if self._is_async != previous._is_async:
            raise ShadowRestartNeeded("whether the current interceptor is a coroutine function")
        if previous.points and not (self.points and self.points <= previous.points):
            raise ShadowRestartNeeded("at which points the current interceptor answers")
        current, before = self._current.interceptor, previous._current.interceptor
        if type(current) is not type(before):
            if hasattr(current, "lifespan"):
                raise ShadowRestartNeeded("a current interceptor with a lifespan")
        elif isinstance(current, Configured) and isinstance(before, Configured):
            current.take_over(before)
        self._settings = previous._settings
        ours, theirs = self.configuration, previous.configuration
        if (ours.candidate, ours.concurrency) == (theirs.candidate, theirs.concurrency):
            self._candidate, self._aside = previous._candidate, previous._aside
        self._open_candidate()
        self._counts = previous._counts
        self._counts.begin(self._phase)

    @property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.intercept)

    def _open_candidate(self) -> None:
        if self._settings is None:
            return
        is_open = self._aside.open(self._settings, within_s=OPENS_WITHIN_S)
        if not is_open and self.configuration.stage is not Stage.SHADOW:
            raise CandidateNotOpen


S = TypeVar("S", bound=Shadow)


class ReloadingShadow(Reloading[S]):
    """The newest trial that the files make, with what all of them have counted."""

    def service_stats(self, point: str | None) -> dict[str, object]:
        """Return what was counted at *point*, or at all of them."""
        return self.current.service_stats(point)


def _as_sent(answer: Any) -> Any:
    """Return *answer*, or its wire form where it is none of the SDK's; raises what ``to_wire`` raises."""
    to_wire = None if isinstance(answer, Verdict) else getattr(answer, "to_wire", None)
    return to_wire() if callable(to_wire) else answer
