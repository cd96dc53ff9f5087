"""An agent process of the bench: one contender, told over its standard input what to measure.

Each contender has a process of its own, so that its processor time and its memory are its own, and no client
library runs beside another. Run as ``python -m hookbus_client.bench.agent SPEC``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import time
from array import array
from pathlib import Path

import msgspec

from hookbus_client.bench.contenders import Emission, Prepare, Spec, opened
from hookbus_client.bench.plan import Case, Contender


class Slice(msgspec.Struct, frozen=True):
    """What to measure: *case* for ``seconds``, and at least ``least`` emissions of each caller."""

    case: Case
    seconds: float
    least: int = 1
    warm_up: int = 1


class Measured(msgspec.Struct, frozen=True):
    """What one slice came to."""

    latencies_us: list[float]
    #: Emissions that ended while every caller went on emitting, and how long that was: at the end callers wait for
    #: their last ones, so that fewer and fewer are under way.
    counted: int
    counted_s: float
    #: Processor time of this process.
    cpu_s: float
    rss_bytes: int


async def serve(spec: Spec) -> None:
    """Measure what comes in, a :class:`Slice` a line, and write a :class:`Measured` for each, until the end."""
    prepared: dict[Case, Emission] = {}
    async with opened(spec) as prepare:
        _say(f"ready {spec.contender}".encode())
        # What is asked for comes while nothing is measured, so a thread that waits for it disturbs nothing.
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            wanted = msgspec.json.decode(line, type=Slice)
            emission = _prepared(prepared, prepare, wanted.case)
            await _callers(wanted.case.callers, emission, 0.0, wanted.warm_up)
            gc.collect()
            _say(msgspec.json.encode(await measure(emission, wanted)))


def _prepared(prepared: dict[Case, Emission], prepare: Prepare, case: Case) -> Emission:
    if case not in prepared:
        prepared[case] = prepare(case)
    return prepared[case]


async def measure(emission: Emission, wanted: Slice) -> Measured:
    """Repeat *emission* as *wanted* says."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    latencies, in_time = await _callers(wanted.case.callers, emission, wanted.seconds, wanted.least)
    elapsed_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    rounded = [round(lasted * 1e6, 1) for lasted in latencies]
    if in_time < wanted.case.callers:
        # Too short a time, or one caller in its only emission: all there is counts.
        return Measured(rounded, len(latencies), elapsed_s, cpu_s, rss_bytes())
    return Measured(rounded, in_time, wanted.seconds, cpu_s, rss_bytes())


async def _callers(number: int, emission: Emission, seconds: float, least: int) -> tuple[array[float], int]:
    """Let *number* callers emit at the same time; return the seconds that each emission took, and how many of them
    had ended after *seconds*.
    """
    latencies = array("d")
    in_time = 0
    end_s = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal in_time
        done, now_s = 0, time.perf_counter()
        while done < least or now_s < end_s:
            began_s = now_s
            await emission()
            now_s = time.perf_counter()
            latencies.append(now_s - began_s)
            in_time += now_s <= end_s
            done += 1

    if number == 1:
        await caller()
    else:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(caller())
    return latencies, in_time


def rss_bytes() -> int:
    """Return the memory that this process has now; where the system does not tell, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Be the contender that the first argument describes."""
    spec = msgspec.json.decode(sys.argv[1], type=Spec)
    if spec.contender is Contender.UVLOOP:
        import uvloop

        uvloop.run(serve(spec))
    else:
        asyncio.run(serve(spec))


if __name__ == "__main__":
    main()
