"""What a trial has come to over a whole fleet: the ``$SRV.STATS`` of every worker, summed."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import anyio
import msgspec

import hookbus
from hookbus_interceptors.shadow.counts import Disagreement, Phase, PhaseCounts

#: Workers beyond this are not heard.
MAX_WORKERS: Final = 10_000


class _Data(msgspec.Struct, frozen=True):
    shadow: list[PhaseCounts] = []


class _Endpoint(msgspec.Struct, frozen=True):
    data: _Data


class WorkerStats(msgspec.Struct, frozen=True):
    """What a worker says of itself (ADR-32), as far as it matters here."""

    id: str
    name: str
    metadata: dict[str, str]
    endpoints: list[_Endpoint]


class Progress(msgspec.Struct, frozen=True):
    """One phase of one interceptor's trial, over all workers that answered."""

    interceptor: str
    phase: Phase
    workers: int
    counts: dict[str, int]
    #: The most frequent ones first.
    disagreements: list[Disagreement]
    #: Questions whose disagreement is of a kind that no worker keeps.
    others: int


async def ask_workers(
    bus: hookbus.Connection, interceptor: str | None, *, inbox: str, wait_s: float, expected: int | None
) -> list[WorkerStats]:
    """Return what the workers of *interceptor*, or all of the connection's tenant, say of themselves.

    Waits ``wait_s`` seconds, because nobody knows how many there are; less once *expected* workers have answered.
    Raises :class:`BusDown`.
    """
    heard: dict[str, WorkerStats] = {}
    enough = anyio.Event()

    def receive(message: hookbus.Message) -> None:
        # Whoever else is on the bus may answer as it likes.
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            stats = msgspec.json.decode(message.body, type=WorkerStats)
            if stats.metadata.get("hb-tenant") == bus.settings.tenant and len(heard) < MAX_WORKERS:
                heard[stats.id] = stats
                if len(heard) == expected:
                    enough.set()

    reply = f"{inbox}.{secrets.token_hex(16)}"
    serving = bus.serve([reply], "", receive, on_refused=lambda _subject: None)
    bus.publish("$SRV.STATS" if interceptor is None else f"$SRV.STATS.{interceptor}", b"", reply=reply)
    with anyio.move_on_after(wait_s):
        await enough.wait()
    await serving.drain(timeout_s=wait_s)
    return list(heard.values())


def summed(workers: Iterable[WorkerStats]) -> list[Progress]:
    """Return each phase of each trial over all *workers*, by interceptor, in the order in which they came."""
    sums: dict[tuple[str, Phase], _Sum] = {}
    for worker in workers:
        for endpoint in worker.endpoints:
            for one in endpoint.data.shadow:
                sums.setdefault((worker.name, one.phase), _Sum()).add(worker.id, one)
    return [
        of.progress(interceptor, phase)
        for (interceptor, phase), of in sorted(sums.items(), key=lambda item: item[0][0])
    ]


class _Sum:
    def __init__(self) -> None:
        self._workers: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[Disagreement] = Counter()
        self._others = 0

    def add(self, worker: str, one: PhaseCounts) -> None:
        self._workers.add(worker)
        self._counts.update(one.counts)
        for kind in one.disagreements:
            self._kinds[msgspec.structs.replace(kind, count=0)] += kind.count
        self._others += one.others

    def progress(self, interceptor: str, phase: Phase) -> Progress:
        kinds = [msgspec.structs.replace(kind, count=count) for kind, count in self._kinds.most_common()]
        return Progress(interceptor, phase, len(self._workers), dict(self._counts), kinds, self._others)
