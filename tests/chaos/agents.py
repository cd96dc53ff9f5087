"""The agents of a soak: each has a profile, interceptors it must hear, and a line to the server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import msgspec
from agent_hooks import AgentContextBuilder, CompositionConfig

import hookbus
from hookbus_client import BusEmitter
from tests.chaos.decisions import AUDIT, LIMITS, POLICY, REDACTOR
from tests.chaos.line import Line
from tests.chaos.oracle import Emission, Oracle

#: How long an interceptor that is safe to repeat is waited for before it is asked again.
HEDGE_AFTER_S: Final = 0.06
#: More than a connection carries.
OVERSIZE_BYTES: Final = 1_200_000


class Seat(msgspec.Struct, frozen=True):
    """An interceptor that an agent requires, and how it asks it."""

    name: str
    timeout_s: float
    hedged: bool = False


class Casting(msgspec.Struct, frozen=True):
    """What kind of agent it is."""

    name: str
    composition: CompositionConfig
    seats: tuple[Seat, ...]
    budget_s: float | None = None

    @property
    def longest_s(self) -> float:
        """How long an emission may take."""
        timeouts = [seat.timeout_s for seat in self.seats]
        longest_s = sum(timeouts) if self.composition.profile.is_sequential else max(timeouts)
        return longest_s if self.budget_s is None else min(longest_s, self.budget_s)


CASTINGS: Final = (
    Casting(
        "alder",
        CompositionConfig.first_deny(),
        (Seat(POLICY, 0.4, hedged=True), Seat(REDACTOR, 0.3), Seat(LIMITS, 0.3)),
        budget_s=0.6,
    ),
    Casting(
        "birch",
        CompositionConfig.run_all(),
        (Seat(REDACTOR, 0.3), Seat(POLICY, 0.35, hedged=True), Seat(AUDIT, 0.25)),
    ),
    Casting(
        "cedar",
        CompositionConfig.strictest(),
        (Seat(POLICY, 0.5, hedged=True), Seat(LIMITS, 0.4), Seat(REDACTOR, 0.5, hedged=True), Seat(AUDIT, 0.3)),
    ),
    Casting(
        "dogwood",
        CompositionConfig.unanimous(),
        (Seat(POLICY, 0.6), Seat(LIMITS, 0.6, hedged=True), Seat(AUDIT, 0.6)),
        budget_s=0.4,
    ),
)


class Agent:
    """One agent, on a connection and in a session of its own. ``make_emitter`` makes what is under test."""

    def __init__(
        self,
        casting: Casting,
        line: Line,
        oracle: Oracle,
        *,
        tenant: str,
        session: str,
        seed: str,
        make_emitter: Callable[..., BusEmitter] = BusEmitter,
    ) -> None:
        self.casting = casting
        self.line = line
        #: The share of its contexts that are larger than the connection carries.
        self.oversize = 0.0
        self._oracle = oracle
        self._chance = random.Random(seed)
        self._builder = AgentContextBuilder(agent_id=casting.name, framework="chaos", session_id=session)
        self._required = tuple(seat.name for seat in casting.seats)
        self.bus = hookbus.connect(
            line.url,
            tenant=tenant,
            name=casting.name,
            ping_interval_s=0.5,
            reconnect_wait_s=0.1,
            breaker_trial_interval_s=0.2,
        )
        self._emitter = make_emitter(composition=casting.composition, budget_s=casting.budget_s)
        for seat in casting.seats:
            remote = self.bus.interceptor(seat.name, hedge_after_s=HEDGE_AFTER_S if seat.hedged else None)
            self._emitter.register(remote, timeout_s=seat.timeout_s)

    async def __aenter__(self) -> Self:
        await self.bus.__aenter__()
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.bus.__aexit__(error_type, error, trace)

    async def emit(self) -> Emission:
        """Emit one call, whatever comes of it, and have the oracle check it."""
        args = self._args()
        context = self._builder.pre_tool_call(call_id="call", name="transfer", args=dict(args))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        emission = Emission(
            self.casting.name, self._required, context, args, began_s, began_s + self.casting.longest_s
        )
        self._oracle.begin(emission)
        loop.call_soon(_note_asked, emission)
        emission.record = await self._emitter.emit_unchecked(context)
        emission.ended_s = loop.time()
        self._oracle.end(emission, self._emitter.take_records())
        return emission

    def _args(self) -> dict[str, object]:
        chance = self._chance
        args: dict[str, object] = {"number": chance.randrange(1_000_000)}
        if chance.random() < 0.3:
            args["secret"] = "4111 1111"
        if chance.random() < 0.1:
            args["note"] = "x" * chance.randrange(20_000)
        if chance.random() < self.oversize:
            args["note"] = "x" * OVERSIZE_BYTES
        return args


def _note_asked(emission: Emission) -> None:
    """Note that the loop runs again: what an emission does before it waits for anything is done."""
    emission.asked_s = asyncio.get_running_loop().time()
