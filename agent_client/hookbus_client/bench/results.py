"""What a run came to, as its JSON file holds it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from hookbus.server import binary
from hookbus_client.bench.agent import Measured
from hookbus_client.bench.plan import Case, Contender

_PACKAGES: Final = (
    "hookbus",
    "agent-hooks-sdk",
    "nats-py",
    "msgspec",
    "aiohttp",
    "uvicorn",
    "httptools",
    "grpcio",
    "uvloop",
)


class Figures(msgspec.Struct, frozen=True):
    """One contender in one case, all rounds together. Times are microseconds for one emission."""

    case: Case
    contender: Contender
    emissions: int
    p50_us: float
    p90_us: float
    p99_us: float
    per_second: float
    #: Processor time of the agent's process.
    cpu_us: float
    #: The median of each round, in the order of the rounds.
    rounds_p50_us: list[float]


class Extras(msgspec.Struct, frozen=True):
    """What is measured beside the cases."""

    #: Memory of an agent's process, before and after so many emissions more.
    memory_emissions: int
    memory_before_bytes: int
    memory_after_bytes: int
    #: Emissions per second at a 20 ms interceptor with one worker, and with so many.
    scaled_workers: int
    scaled_one_per_second: float
    scaled_all_per_second: float
    #: A session of so many turns: its conversation, and what each interceptor is sent of it.
    session_turns: int
    session_conversation_bytes: int
    session_sent_bytes: int


class Machine(msgspec.Struct, frozen=True):
    """Where the run was made."""

    processor: str
    cores: int
    memory_gib: int
    system: str
    python: str
    nats_server: str
    packages: dict[str, str]
    #: The load average when the run began: above a few tenths, something else was running.
    load: float


class Results(msgspec.Struct, frozen=True):
    """A whole run."""

    plan: str
    #: When it began, UTC.
    date: str
    lasted_s: float
    machine: Machine
    figures: list[Figures]
    extras: Extras

    def find(self, case: Case, contender: Contender) -> Figures | None:
        """Return the figures of *contender* in *case*, if it was measured."""
        return next((f for f in self.figures if f.case == case and f.contender is contender), None)


def figures(case: Case, contender: Contender, rounds: Sequence[Measured]) -> Figures:
    """Return what the slices of *contender* in *case* come to, one slice a round."""
    latencies = sorted(latency for measured in rounds for latency in measured.latencies_us)
    return Figures(
        case,
        contender,
        emissions=len(latencies),
        p50_us=percentile(latencies, 50),
        p90_us=percentile(latencies, 90),
        p99_us=percentile(latencies, 99),
        per_second=round(sum(each.counted for each in rounds) / sum(each.counted_s for each in rounds), 1),
        cpu_us=round(sum(measured.cpu_s for measured in rounds) / len(latencies) * 1e6, 1),
        rounds_p50_us=[round(median(measured.latencies_us), 1) for measured in rounds],
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the smallest of *ordered*, at least one, that ``percent`` % of them do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def read(path: Path) -> Results:
    """Return the results in the JSON file *path*."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path) -> None:
    """Write *results* to *path* as JSON that people can read."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def now() -> str:
    """Return this minute, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine() -> Machine:
    """Describe this machine, without its name."""
    server = subprocess.run([binary(), "--version"], capture_output=True, text=True, check=True).stdout
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(pages / 2**30),
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        nats_server=server.strip().split(":")[-1].strip().removeprefix("v"),
        packages={name: version(name) for name in _PACKAGES},
        load=round(os.getloadavg()[0], 1),
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
