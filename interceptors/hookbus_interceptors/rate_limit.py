"""Rate limits over a whole fleet: a sliding window for each key, exact whichever workers answer.

The window is pyrate-limiter's; where it is kept, and that two workers never take the same place in it, is
:mod:`hookbus_interceptors.store`.
"""

from __future__ import annotations

import secrets
import time
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from math import ceil
from typing import Annotated, Final, Literal, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pyrate_limiter import Decision, InMemoryBucket, Rate, RateItem, validate_rate_list

import hookbus
from hookbus.codec import Json
from hookbus.subjects import token
from hookbus_interceptors.authoring import (
    Context,
    InputContext,
    PreModelCallContext,
    PreToolCallContext,
    Verdict,
    allow,
    deny,
    input,
    pre_model_call,
    pre_tool_call,
)
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.current import question
from hookbus_interceptors.store import Step, StoreSettings, Values, question_name

#: Calls in one window: each is some 55 bytes of the value that every call under the key rewrites.
MAX_CALLS: Final = 5_000
#: The server's clock may be ahead, and a window that is forgotten early begins anew.
_TTL_MARGIN_S: Final = 3600
_NO_ACTOR: Final = deny("rate-limit:actor-unknown", "A rate is kept for each actor, and the agent names none.")

KeyPart = Annotated[str, StringConstraints(pattern=r"^(tenant|agent|actor|session|tool|args(\.[A-Za-z0-9_-]+)+)$")]


class Pace(BaseModel):
    """So many calls in any stretch of so many seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    calls: int = Field(ge=1, le=MAX_CALLS)
    within_s: float = Field(ge=0.001, le=31 * 86400)

    @property
    def rate(self) -> Rate:
        """The same as the window has it."""
        return Rate(self.calls, round(self.within_s * 1000))


class Rule(BaseModel):
    """Which calls are counted together, and how many of them may come."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: In reasons, ``rate-limit:NAME``, and in the store.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    #: All of them hold.
    rates: tuple[Pace, ...] = Field(min_length=1)
    #: Counted for each combination of these; ``args.recipient`` is a value in the tool's arguments.
    key: tuple[KeyPart, ...] = Field(min_length=1)
    #: Patterns of tool names, ``*`` for any run of characters; ``mcp__server__tool`` is met by ``tool`` too.
    tools: tuple[str, ...] = ("*",)
    at: Literal["pre_tool_call", "pre_model_call", "input"] = "pre_tool_call"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        rates = sorted((pace.rate for pace in self.rates), key=lambda rate: rate.interval)
        if not validate_rate_list(rates):
            raise ValueError("a longer stretch has more calls, but not more for its length; another never holds")
        if self.at != "pre_tool_call" and (
            self.tools != ("*",) or any(part[:4] in ("tool", "args") for part in self.key)
        ):
            raise ValueError(f"there is no tool at {self.at}")
        return self

    def meets(self, tool: str) -> bool:
        """Whether calls of *tool* are counted; upper and lower case are the same."""
        names = (tool.casefold(), tool.casefold().rpartition("__")[2])
        return any(fnmatchcase(name, pattern.casefold()) for pattern in self.tools for name in names)


class RateLimitConfiguration(Configuration):
    """The rules, all of which hold."""

    rules: tuple[Rule, ...] = Field(min_length=1)
    store: StoreSettings = StoreSettings(bucket="hookbus-rate-limit")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        if len({rule.name for rule in self.rules}) < len(self.rules):
            raise ValueError("two rules have the same name")
        return self


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """One place in a window. Each attempt to ask a question has its own; together they count once."""

    at_ms: int
    question: str
    attempt: str


class Window(msgspec.Struct, omit_defaults=True):
    """What stands under one key: who came when, the oldest first.

    Methods return what to tell and whether anything is to be written, and may run again for the same question.
    """

    taken: list[Taken] = []

    def take(self, place: Taken, rates: list[Rate]) -> tuple[Decision | None, bool]:
        """Take *place* if every rate has room for it; tell which has not, and when it will."""
        before = {taken.question: taken for taken in self.taken}
        other = before.get(place.question)
        if other is not None:
            # In the place that the question has already.
            self._add(Taken(other.at_ms, place.question, place.attempt))
            return None, True
        window = InMemoryBucket(rates)
        window.items = [RateItem(taken.question, taken.at_ms) for taken in before.values()]
        window.leak(place.at_ms)
        decision = window.put_decision(RateItem(place.question, place.at_ms))
        assert isinstance(decision, Decision)
        if not decision.allowed:
            return decision, False
        kept = {item.name for item in window.items}
        self.taken = [taken for taken in self.taken if taken.question in kept]
        self._add(place)
        return None, True

    def release(self, question: str, attempt: str) -> tuple[None, bool]:
        """Give back what *attempt* took; what another attempt of the same question took stays."""
        before = len(self.taken)
        self.taken = [taken for taken in self.taken if (taken.question, taken.attempt) != (question, attempt)]
        return None, len(self.taken) < before

    def _add(self, place: Taken) -> None:
        self.taken = sorted({*self.taken, place}, key=lambda taken: taken.at_ms)


class RateLimit(Configured[RateLimitConfiguration]):
    """Denies what comes faster than a rule permits, over all workers together."""

    #: A second attempt is known by its id.
    repeat_aware = True

    def __init__(
        self,
        configuration: RateLimitConfiguration,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(configuration)
        self._now_ms = now_ms
        self._windows = Values(configuration.store, Window)

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold the windows open, over a connection of their own with the settings of *bus*."""
        async with self._windows.opened(bus.settings):
            yield

    def take_over(self, previous: Self) -> None:
        """Go on with the windows of *previous*. Raises :class:`RestartNeeded` where they are kept elsewhere."""
        self._windows = previous._windows.taken_over(self.configuration.store)
        self._now_ms = previous._now_ms

    @pre_tool_call
    async def before_tool(self, context: PreToolCallContext) -> Verdict:
        """Return allow for a tool call that every rule has room for, else deny."""
        call = context.tool_call
        rules = [rule for rule in self._rules("pre_tool_call") if rule.meets(call.name)]
        return await self._take(context, rules, call.name, call.args)

    @pre_model_call
    async def before_model(self, context: PreModelCallContext) -> Verdict:
        """Return allow for a call of the model that every rule has room for, else deny."""
        return await self._take(context, self._rules("pre_model_call"))

    @input
    async def at_input(self, context: InputContext) -> Verdict:
        """Return allow for an input that every rule has room for, else deny."""
        return await self._take(context, self._rules("input"))

    def _rules(self, point: str) -> list[Rule]:
        return [rule for rule in self.configuration.rules if rule.at == point]

    async def _take(self, context: Context, rules: list[Rule], tool: str = "", args: Json = None) -> Verdict:
        if context.actor.id is None and any("actor" in rule.key for rule in rules):
            return _NO_ACTOR
        place = Taken(self._now_ms(), question_name(context.raw), secrets.token_hex(4))
        steps = {self._step(rule, place, self._key(rule, context, tool, args)): rule for rule in rules}
        undo = partial(Window.release, question=place.question, attempt=place.attempt)
        refused = await self._windows.change_all(steps, undo)
        return allow() if refused is None else _refusal(steps[refused[0]], refused[1], place.at_ms)

    def _step(self, rule: Rule, place: Taken, key: str) -> Step[Window, Decision]:
        rates = [pace.rate for pace in rule.rates]
        ttl_s = ceil(max(pace.within_s for pace in rule.rates)) + _TTL_MARGIN_S
        return Step(key, partial(Window.take, place=place, rates=rates), ttl_s)

    def _key(self, rule: Rule, context: Context, tool: str, args: Json) -> str:
        asked = question()
        parts = [asked.interceptor, rule.name]
        for part in rule.key:
            match part:
                case "tenant":
                    continue  # the store keeps every tenant apart
                case "agent":
                    parts.append(asked.agent)
                case "actor":
                    parts.append(token(context.actor.id or ""))
                case "session":
                    parts.append(token(context.session.id))
                case "tool":
                    parts.append(token(tool.casefold()))
                case _:
                    parts.append(token(_plain(_at(args, part.split(".")[1:]))))
        return ".".join(parts)


def _at(value: Json, path: list[str]) -> Json:
    """Return what stands at *path*; None where nothing does, so that calls without it are counted together."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _plain(value: Json) -> str:
    """Return one text for all that reads alike: case, width and blanks around it make no window of their own."""
    if isinstance(value, str):
        return unicodedata.normalize("NFKC", value).strip().casefold()
    return msgspec.json.encode(value, order="sorted").decode()


def _refusal(rule: Rule, decision: Decision, now_ms: int) -> Verdict:
    rate = decision.failing_rate
    assert rate is not None
    whose = " and ".join("argument" if part.startswith("args.") else part for part in rule.key)
    said = f"At most {rate.limit} in {rate.interval / 1000:g} s for each {whose}."
    if decision.retry_after_ms is not None:
        said += f" There is room again at {_when(now_ms + decision.retry_after_ms)}."
    return deny(f"rate-limit:{rule.name}", said)


def _when(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
