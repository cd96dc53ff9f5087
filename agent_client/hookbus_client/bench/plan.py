"""What is measured: the cases, the contenders in each, and how long each of them gets."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Contender(StrEnum):
    """One way to get a verdict."""

    #: The SDK's emitter with asynchronous interceptors in the agent's own process.
    SDK = "sdk"
    #: ``nc.request`` of bytes that were encoded before, and nothing else: no check, identity, verdict or record.
    BARE = "bare"
    #: Our emitter, each question an HTTP POST.
    HTTP = "http"
    #: Our emitter, each question a gRPC call.
    GRPC = "grpc"
    BUS = "bus"
    #: Questions and answers signed and checked.
    SIGNED = "signed"
    #: The bus with uvloop in the agent and in its workers.
    UVLOOP = "uvloop"
    #: The bus, and nobody there to answer.
    ABSENT = "absent"
    #: The bus, and an interceptor that waits 20 ms for something else.
    SLOW = "slow"


#: What people read.
NAMES: Final = {
    Contender.SDK: "SDK in process",
    Contender.BARE: "bare request",
    Contender.HTTP: "HTTP",
    Contender.GRPC: "gRPC",
    Contender.BUS: "hookbus",
    Contender.SIGNED: "signed",
    Contender.UVLOOP: "uvloop",
    Contender.ABSENT: "absent",
    Contender.SLOW: "slow",
}


class Case(msgspec.Struct, frozen=True):
    """One emission as it is repeated."""

    #: One of :data:`hookbus_client.bench.conversations.SIZES`, or ``tool call``.
    context: str
    interceptors: int
    callers: int = 1
    #: ``sequential/first_deny``; otherwise ``parallel/strictest``.
    sequential: bool = False

    def __str__(self) -> str:
        profile = ", sequential" if self.sequential else ""
        callers = f", {self.callers} callers" if self.callers > 1 else ""
        return f"{self.context} × {self.interceptors}{profile}{callers}"


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    name: str
    cases: dict[Case, tuple[Contender, ...]]
    #: In each round every contender of a case gets one slice, one after the other.
    rounds: int
    #: How long one caller emits in a slice; many callers get twice as long.
    slice_s: float
    #: Emissions before and after which the agent's memory is looked at.
    memory_emissions: tuple[int, int]
    #: Workers at the end of the row that begins with one.
    scaled_workers: int
    session_turns: int = 200


_ALL: Final = (Contender.SDK, Contender.BARE, Contender.HTTP, Contender.GRPC, Contender.BUS, Contender.SIGNED)
_EVERY: Final = (*_ALL, Contender.UVLOOP)


def full() -> Plan:
    """Return the plan of ``hookbus bench``."""
    sizes = ("0.5 KB", "4 KB", "13 KB", "64 KB", "256 KB", "4 MB")
    cases: dict[Case, tuple[Contender, ...]] = {Case(size, count): _ALL for size in sizes for count in (1, 3, 8)}
    cases |= {Case("tool call", count): _ALL for count in (1, 3)}
    cases |= {Case(size, 3, sequential=True): _ALL for size in ("0.5 KB", "13 KB", "256 KB")}
    cases |= {Case(size, count, n): _ALL for size, count in (("0.5 KB", 1), ("13 KB", 3)) for n in (32, 256)}
    for case in (Case("0.5 KB", 1), Case("13 KB", 3), Case("256 KB", 3), Case("13 KB", 3, 32)):
        cases[case] = _EVERY
    cases[Case("0.5 KB", 1)] += (Contender.ABSENT,)
    return Plan("full", cases, rounds=4, slice_s=0.25, memory_emissions=(2_000, 10_000), scaled_workers=16)


def quick() -> Plan:
    """Return the plan of ``hookbus bench --quick``: what the targets need, and no more."""
    sdk, bare, http, _, bus, signed = _ALL
    cases = {
        Case("0.5 KB", 1): (bare, bus, http, sdk, Contender.ABSENT),
        Case("13 KB", 1): (bus, sdk),
        Case("13 KB", 3): (sdk, bus, signed, http),
        Case("13 KB", 8): (bus,),
        Case("64 KB", 3): (sdk, bus),
        Case("256 KB", 3): (sdk, bus),
        Case("4 MB", 3): (bus,),
        Case("0.5 KB", 3, sequential=True): (bare, bus),
        Case("13 KB", 3, sequential=True): (bare, bus),
        Case("13 KB", 3, 32): (http, bus),
    }
    return Plan("quick", cases, rounds=3, slice_s=0.12, memory_emissions=(1_000, 10_000), scaled_workers=16)


def smallest() -> Plan:
    """Return a plan in which everything happens once, for a test of the bench itself."""
    cases = {
        Case("0.5 KB", 1): (*_EVERY, Contender.ABSENT),
        Case("13 KB", 1): (Contender.BUS,),
        Case("tool call", 1, 2): _ALL,
        Case("13 KB", 2, sequential=True): (Contender.BARE, Contender.BUS),
    }
    return Plan(
        "smallest",
        cases,
        rounds=1,
        slice_s=0.0,
        memory_emissions=(5, 10),
        scaled_workers=2,
        session_turns=5,
    )
