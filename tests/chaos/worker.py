"""A worker process of the soak: a real worker around an honest interceptor, told over its stdin to misbehave.

    python -m tests.chaos.worker

It writes ``waiting``, ``ready`` once it serves, and ``obeyed`` for each order. The first line of stdin is the
:class:`Role`, each later one an :class:`Order`, as JSON. At the end of stdin, as at SIGTERM, it drains, so no
worker outlives the soak that started it.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from typing import Any

import msgspec

from hookbus import read_settings
from hookbus_interceptors import Worker
from tests.chaos.bending import OVERSIZE_BYTES, BendingConnection
from tests.chaos.decisions import REDACTED, SECRET_PATH, decision
from tests.chaos.proofs import Notary, Proof


class Role(msgspec.Struct, frozen=True):
    """Which worker of which interceptor this process is, and where."""

    interceptor: str
    worker: str
    url: str
    tenant: str
    key: str
    seed: str
    concurrency: int = 16


class Order(msgspec.Struct, frozen=True):
    """How to behave from now on; the default is honestly, and at once."""

    #: A way of :class:`BendingConnection`.
    bend: str | None = None
    #: Something that the interceptor itself does: ``slow``, ``raise`` or ``oversize``.
    fault: str | None = None
    #: Of how many answers.
    share: float = 1.0


class Honest:
    """The interceptor: decides as :mod:`tests.chaos.decisions` says, and proves it."""

    def __init__(self, role: Role, chance: random.Random) -> None:
        self._role = role
        self._notary = Notary(bytes.fromhex(role.key))
        self._chance = chance
        self.order = Order()

    async def intercept(self, context: dict[str, Any], /) -> dict[str, Any]:
        """Return the verdict, or misbehave as ordered."""
        if self.order.fault is not None and self._chance.random() < self.order.share:
            match self.order.fault:
                case "slow":
                    await asyncio.sleep(self._chance.uniform(0.1, 2.0))
                case "raise":
                    raise RuntimeError
                case "oversize":
                    return {"decision": "allow", "message": "x" * OVERSIZE_BYTES}
        return self._verdict(context)

    def _verdict(self, context: dict[str, Any]) -> dict[str, Any]:
        decided = decision(self._role.interceptor, context["target"])
        proof = self._notary.proof(Proof(decided, self._role.interceptor, self._role.worker), context)
        if decided == "deny":
            return {"decision": "deny", "reason": proof}
        verdict: dict[str, Any] = {"decision": decided, "result_labels": [proof]}
        if decided == "transform":
            verdict["transform"] = {"path": SECRET_PATH, "value": REDACTED}
        return verdict


async def main() -> None:
    """Serve until the end of stdin or SIGTERM."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print("waiting", flush=True)
    role = msgspec.json.decode(await orders.readline(), type=Role)
    chance = random.Random(role.seed)
    settings = read_settings(
        url=role.url, tenant=role.tenant, ping_interval_s=0.5, reconnect_wait_s=0.1, name=role.worker
    )
    bus = BendingConnection(settings, role.interceptor, role.worker, chance)
    honest = Honest(role, chance)
    worker = Worker(bus, honest, name=role.interceptor, concurrency=role.concurrency)
    loop.add_signal_handler(signal.SIGTERM, worker.drain)

    async def obey() -> None:
        while line := await orders.readline():
            honest.order = msgspec.json.decode(line, type=Order)
            bus.bend(honest.order.bend, honest.order.share)
            print("obeyed", flush=True)
        worker.drain()

    async with bus, worker:
        print("ready", flush=True)
        obeying = asyncio.create_task(obey())
        await worker.drained()
        obeying.cancel()


if __name__ == "__main__":
    asyncio.run(main())
