"""Writes docs/conformance.md from a run of the kit, here and now: ``python -m tests.conformance.report``."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agent_hooks.ctk import Harness, VectorResult, load_vectors, run_vector

from hookbus.server import EmbeddedServer

from .agent_framework_harness import AgentFrameworkHarness
from .deployment import Deployment
from .harness import BusHarness
from .incremental import EXPOSURE_BOUND, failures_of, incremental_vectors

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
Vector = dict[str, Any]

INTRODUCTION = """\
# Conformance with AGENT-HOOKS-0.1

Written by `python -m tests.conformance.report` from a run of the conformance kit of agent-hooks-sdk {sdk}
({total} vectors). In every run the interceptors answer from workers over a real NATS server; a verdict that no
worker was asked for over the bus fails its vector. `make conformance` runs the same vectors as tests.
"""

MEDIATION = """\
The kit hands no harness a vector's chunks, and asserts neither `released_output` nor
`persisted_must_not_contain`, so its plain run skips this part. `tests/conformance/incremental.py` runs the same
files: the model streams the chunks, the agent mediates them one by one, the kit's engine asserts what it knows and
the runner the other two. Any expectation changed in a copy of its vector makes that copy fail (a strict sequence
relaxed asks for less, so there each interception is left out instead).

Exposure bound: {bound}.
"""

HEADER = ["| part | vectors | passed | failed | skipped |", "| --- | ---: | ---: | ---: | ---: |"]


async def page() -> str:
    """Run everything, over the server of :attr:`Deployment.url`, and return the page.

    A vector that fails is reported as failed.
    """
    vectors = load_vectors()
    by_kit = await _by_the_kit(BusHarness, vectors)
    incremental = incremental_vectors()
    by_us = [await _mediated(vector) for vector in incremental]
    framework = await _by_the_kit(AgentFrameworkHarness, vectors)
    sections = [
        INTRODUCTION.format(sdk=version("agent-hooks-sdk"), total=len(vectors)),
        "## The agent of this project\n",
        _surface(BusHarness),
        _table(vectors, by_kit),
        "## Incremental mediation\n",
        MEDIATION.format(bound=EXPOSURE_BOUND),
        _table(incremental, by_us),
        f"## Microsoft Agent Framework {version('agent-framework-core')}\n",
        _surface(AgentFrameworkHarness),
        _table(vectors, framework),
    ]
    return "\n".join(sections)


async def _by_the_kit(harness: Callable[[], Harness], vectors: list[Vector]) -> list[VectorResult]:
    return [await run_vector(harness(), vector) for vector in vectors]


async def _mediated(vector: Vector) -> VectorResult:
    failures = await failures_of(vector)
    return VectorResult(vector["id"], vector["title"], "fail" if failures else "pass", failures=failures)


def _surface(harness: type[Harness]) -> str:
    capabilities = ", ".join(f"`{capability.value}`" for capability in sorted(harness.capabilities))
    return (
        "All eight interception points. After a `host_error:*` at the tool seam the run does this:\n"
        f"`{harness.tool_seam_host_error}`. Capabilities: {capabilities}.\n"
    )


def _table(vectors: list[Vector], results: list[VectorResult]) -> str:
    """One row a part, then the totals and what was not passed, and why."""
    parts: dict[str, Counter[str]] = {}
    rest: dict[str, list[str]] = {}
    for vector, result in zip(vectors, results, strict=True):
        parts.setdefault(vector.get("part", "(no part named)"), Counter())[result.status] += 1
        if result.status != "pass":
            rest.setdefault(f"{result.status}: {result.detail}", []).append(result.id)
    totals = sum(parts.values(), Counter())
    rows = [
        f"| {part} | {counts.total()} | {counts['pass']} | {counts['fail']} | {counts['skip']} |"
        for part, counts in [*sorted(parts.items()), ("**all**", totals)]
    ]
    explained = [f"{why} ({len(ids)}: {ids[0]} to {ids[-1]})\n" for why, ids in rest.items()]
    return "\n".join([*HEADER, *rows, "", *explained])


if __name__ == "__main__":
    with EmbeddedServer() as server:
        Deployment.url = server.url
        PAGE.write_text(asyncio.run(page()), "utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
