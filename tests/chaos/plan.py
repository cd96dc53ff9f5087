"""The plan of a soak: which fault meets what, when and for how long, all from one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import msgspec

from tests.chaos.decisions import AUDIT, LIMITS, POLICY, REDACTOR

#: The workers of each interceptor. Of two the other one goes on when a fault meets one.
WORKERS: Final = {
    POLICY: ("policy-1", "policy-2"),
    LIMITS: ("limits-1", "limits-2"),
    REDACTOR: ("redactor-1",),
    AUDIT: ("audit-1",),
}
AGENTS: Final = ("alder", "birch", "cedar", "dogwood")
SERVER: Final = "server"
#: The worker that reaches the server over a line that can be cut.
LINED_WORKER: Final = "audit-1"

#: Faults of a worker's process.
PROCESS_KINDS: Final = ("worker_killed", "worker_stopped", "worker_restarted")
#: Faults of what a worker answers: the bend of its answers, or what its interceptor does.
BENDS: Final = {
    "late": "late",
    "twice": "twice",
    "wrong_question": "wrong_question",
    "wrong_id": "wrong_id",
    "wrong_interceptor": "wrong_interceptor",
    "rubbish": "rubbish",
    "malformed_headers": "malformed_headers",
    "oversize_frame": "oversize_frame",
}
INTERCEPTOR_FAULTS: Final = {"slow": "slow", "raising": "raise", "oversize_verdict": "oversize"}
SERVER_KINDS: Final = ("server_killed", "server_stopped", "server_restarted")
AGENT_KINDS: Final = ("agent_cut", "agent_held", "oversize_context")
KINDS: Final = (
    *PROCESS_KINDS,
    *BENDS,
    *INTERCEPTOR_FAULTS,
    *SERVER_KINDS,
    *AGENT_KINDS,
    "worker_cut",
)

#: How many emissions lie between a fault and the next one.
GAP: Final = (30, 90)


class Fault(msgspec.Struct, frozen=True):
    """One fault: it begins once so many emissions have ended and lasts for so many more."""

    kind: str
    #: A worker, an agent, or the server.
    target: str
    begins: int
    lasts: int
    #: How many of the target's answers, or of its contexts, it bends.
    share: float = 1.0


class Plan(msgspec.Struct, frozen=True):
    """Everything that is decided beforehand; the same seed and size give the same plan on every machine."""

    seed: int
    emissions: int
    faults: tuple[Fault, ...]


def make_plan(seed: int, emissions: int, kinds: Sequence[str] = KINDS) -> Plan:
    """Return a plan of at least *emissions*, with as many rounds of *kinds* as fit, and at least one.

    In the first round every fault comes alone; later, some begin while others last.
    """
    chance = random.Random(seed)
    faults: list[Fault] = []
    begins = length = 0
    while not faults or begins + length <= emissions:
        first, began = not faults, begins
        for kind in chance.sample(kinds, len(kinds)):
            begins += chance.randint(*GAP)
            lasts, share = _extent(kind, chance)
            # Alone, a fault meets an interceptor with one worker, so that it costs something for certain.
            faults.append(Fault(kind, _target(kind, chance, alone=first), begins, lasts, share))
            if first or chance.random() < 0.75:
                begins += lasts
        length = begins - began
    return Plan(seed, max(emissions, begins + GAP[1]), tuple(faults))


def _target(kind: str, chance: random.Random, *, alone: bool) -> str:
    if kind in SERVER_KINDS:
        return SERVER
    if kind in AGENT_KINDS:
        return chance.choice(AGENTS)
    if kind == "worker_cut":
        return LINED_WORKER
    workers = [worker for group in WORKERS.values() for worker in group if len(group) == 1 or not alone]
    return chance.choice(workers)


def _extent(kind: str, chance: random.Random) -> tuple[int, float]:
    if kind in ("server_restarted", "worker_restarted"):
        return 0, 1.0
    if kind in SERVER_KINDS:
        return chance.randint(20, 60), 1.0
    if kind == "server_killed":
        return chance.randint(20, 60), 1.0
    if kind == "server_stopped":
        # Long enough, now and then, that connections are given up.
        return chance.choice((40, 60, 80, 400)), 1.0
    if kind == "oversize_frame":
        return chance.randint(40, 120), 0.2
    if kind == "oversize_context":
        return chance.randint(100, 200), 0.2
    if kind == "agent_held":
        # Longer than its deadlines, or what was held is delivered in time.
        return chance.randint(300, 500), 1.0
    if kind in AGENT_KINDS:
        # Every fourth emission is of that agent.
        return chance.randint(100, 200), 1.0
    share = chance.choice((0.4, 0.7, 1.0))
    lasts = chance.randint(40, 120)
    return lasts, share if kind in BENDS or kind in INTERCEPTOR_FAULTS else 1.0
