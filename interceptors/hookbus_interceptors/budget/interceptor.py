"""The budget interceptor: every limit reserves before a call and settles after it, over all workers."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Final, Self, TypeVar

import msgspec

import hookbus
from hookbus.subjects import token
from hookbus_interceptors.authoring import (
    Context,
    PostModelCallContext,
    PostToolCallContext,
    PreModelCallContext,
    PreToolCallContext,
    Verdict,
    allow,
    deny,
    post_model_call,
    post_tool_call,
    pre_model_call,
    pre_tool_call,
)
from hookbus_interceptors.budget.account import Account, Amounts, Ceiling, Hold, Measure, Refusal
from hookbus_interceptors.budget.configuration import DAY_S, BudgetConfiguration, Limit, Scope
from hookbus_interceptors.budget.usage import estimated, used
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.current import question
from hookbus_interceptors.store import Step, Values, digest, question_name

R = TypeVar("R")

_DAY_MS: Final = DAY_S * 1000
#: The server's clock may be ahead, and a value that is forgotten early is a budget that begins anew.
_TTL_MARGIN_S: Final = 3600
_BREADTH: Final = (Scope.SESSION, Scope.AGENT, Scope.ACTOR, Scope.TENANT)
_ONE_CALL: Final = Amounts(tool_calls=1)
_NO_ACTOR: Final = deny("budget:actor-unknown", "A budget is kept for each actor, and the agent names none.")
_UNITS: Final = {
    Measure.TOOL_CALLS: "tool calls",
    Measure.TOKENS: "tokens",
    Measure.COST: "USD",
    Measure.ELAPSED: "seconds since the first question",
}


def wall_clock_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class ActorUnknown(Exception):
    """A limit counts for each actor, and the agent names none."""


class Entry(msgspec.Struct, frozen=True):
    """Where a limit is counted for one question."""

    key: str
    limit: Limit
    ceiling: Ceiling
    #: When the window ends; None where it does not.
    resets_ms: int | None
    ttl_s: int


class Budget(Configured[BudgetConfiguration]):
    """Denies a call that a budget of the whole fleet has no room for."""

    #: A second attempt is known by its id.
    repeat_aware = True

    def __init__(
        self,
        configuration: BudgetConfiguration,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        super().__init__(configuration)
        self._now_ms = now_ms
        # Narrow scopes first: what the tenant has no room for was taken from nobody else's session meanwhile.
        narrow_first = sorted(configuration.limits, key=lambda limit: min(map(_BREADTH.index, limit.per)))
        self._limits = [(limit, limit.ceiling) for limit in narrow_first]
        self._accounts = Values(configuration.store, Account)

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold the accounts open, over a connection of their own with the settings of *bus*."""
        async with self._accounts.opened(bus.settings):
            yield

    def take_over(self, previous: Self) -> None:
        """Go on with the accounts of *previous*. Raises :class:`RestartNeeded` where they are kept elsewhere."""
        self._accounts = previous._accounts.taken_over(self.configuration.store)
        self._now_ms = previous._now_ms

    # ---- before ------------------------------------------------------------------------------------

    @pre_tool_call
    async def before_tool(self, context: PreToolCallContext) -> Verdict:
        """Return allow once one tool call is reserved under every limit, else deny."""
        return await self._reserve(context, _ONE_CALL, _call(context, "tool", context.tool_call.id))

    @pre_model_call
    async def before_model(self, context: PreModelCallContext) -> Verdict:
        """Return allow once the call's estimate is reserved under every limit, else deny."""
        amounts = estimated(context, self.configuration)
        if amounts is None:
            return deny("budget:price-unknown", "Costs are limited, and the budget knows no price of this model.")
        return await self._reserve(context, amounts, _call(context, "model"))

    async def _reserve(self, context: Context, amounts: Amounts, call: str) -> Verdict:
        asked, now_ms = question(), self._now_ms()
        name, attempt = question_name(context.raw), secrets.token_hex(4)
        hold = Hold(
            attempts=(attempt,),
            call=call,
            amounts=amounts,
            until_ms=now_ms + int(self.configuration.lease_s * 1000),
            answer_by_ms=now_ms + int(asked.remaining_s * 1000),
        )
        reserve = partial(
            Account.reserve,
            question=name,
            hold=hold,
            now_ms=now_ms,
            spend_expired=self.configuration.unsettled == "spent",
        )
        try:
            steps = {
                Step(entry.key, partial(reserve, ceiling=entry.ceiling), entry.ttl_s): entry
                for entry in self._entries(context, now_ms)
                if entry.ceiling.elapsed_ms is not None or entry.ceiling.counts(amounts)
            }
        except ActorUnknown:
            return _NO_ACTOR
        undo = partial(Account.release, question=name, attempt=attempt)
        refused = await self._accounts.change_all(steps, undo)
        return allow() if refused is None else _refusal(steps[refused[0]], refused[1])

    # ---- after -------------------------------------------------------------------------------------

    @post_tool_call
    async def after_tool(self, context: PostToolCallContext) -> Verdict:
        """Return allow once the call is counted as made."""
        return await self._settle(context, _ONE_CALL, _ONE_CALL, _call(context, "tool", context.tool_call.id))

    @post_model_call
    async def after_model(self, context: PostModelCallContext) -> Verdict:
        """Return allow once what the call took is counted instead of what was reserved."""
        counted = Amounts(tokens=1, cost=1)
        return await self._settle(context, used(context, self.configuration), counted, _call(context, "model"))

    async def _settle(self, context: Context, actual: Amounts | None, counted: Amounts, call: str) -> Verdict:
        """Settle *call* under the limits of anything in *counted*."""
        asked, now_ms = question(), self._now_ms()
        settle = partial(
            Account.settle,
            call=call,
            question=question_name(context.raw),
            actual=actual,
            answer_by_ms=now_ms + int(asked.remaining_s * 1000),
            now_ms=now_ms,
        )
        only_held = self.configuration.unsettled == "spent"
        began_ms = now_ms - int(self.configuration.lease_s * 1000)
        try:
            entries = list(zip(self._entries(context, now_ms), self._entries(context, began_ms), strict=True))
        except ActorUnknown:
            return _NO_ACTOR
        for entry, before in entries:
            if not entry.ceiling.counts(counted):
                continue
            # A call that began before midnight is counted on the day on which it was reserved.
            settled = before.key != entry.key and await self._accounts.change(
                before.key, partial(settle, only_held=True), ttl_s=before.ttl_s
            )
            if not settled:
                await self._accounts.change(entry.key, partial(settle, only_held=only_held), ttl_s=entry.ttl_s)
        return allow()

    # ---- which accounts ----------------------------------------------------------------------------

    def _entries(self, context: Context, now_ms: int) -> Iterator[Entry]:
        """Yield where each limit is counted at ``now_ms``. Raises :class:`ActorUnknown`."""
        asked = question()
        for limit, ceiling in self._limits:
            parts = [asked.interceptor]
            for scope in sorted(limit.per):
                parts.append(scope.value)
                match scope:
                    case Scope.ACTOR:
                        if context.actor.id is None:
                            raise ActorUnknown
                        parts.append(token(context.actor.id))
                    case Scope.AGENT:
                        parts.append(asked.agent)
                    case Scope.SESSION:
                        parts.append(token(context.session.id))
                    case Scope.TENANT:
                        pass  # the store keeps every tenant apart
            ttl_s, resets_ms = self.configuration.forget_s, None
            if limit.window == "day":
                resets_ms = (now_ms // _DAY_MS + 1) * _DAY_MS
                parts.append(datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat())
                ttl_s = DAY_S + int(self.configuration.lease_s)
            yield Entry(".".join(parts), limit, ceiling, resets_ms, ttl_s + _TTL_MARGIN_S)


def _refusal(entry: Entry, refusal: Refusal) -> Verdict:
    limit = entry.limit
    whose = " and ".join(scope.value for scope in limit.per) + (" and day (UTC)" if limit.window == "day" else "")
    if refusal.measure is Measure.RESERVATIONS:
        said = f"Too many calls of one {whose} are in progress."
    else:
        allowed = {
            Measure.TOOL_CALLS: limit.tool_calls,
            Measure.TOKENS: limit.tokens,
            Measure.COST: limit.cost_usd,
            Measure.ELAPSED: limit.elapsed_s,
        }[refusal.measure]
        resets = f"It resets at {_when(entry.resets_ms)}." if entry.resets_ms is not None else "It does not reset."
        said = f"The limit of {allowed} {_UNITS[refusal.measure]} for each {whose} leaves no room. {resets}"
    if refusal.held_until_ms is not None:
        said += f" Calls in progress have reserved some of it, the first until {_when(refusal.held_until_ms)}."
    return deny(f"budget:{refusal.measure}", said)


def _when(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _call(context: Context, *what: str) -> str:
    """Return what the questions before and after a call have in common."""
    return digest(context.agent.id, context.session.id, *what)
