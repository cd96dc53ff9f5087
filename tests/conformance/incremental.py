"""Incremental mediation (§12.1) under the kit's own vectors, AH-CTK-110 to 113, as its plain runner cannot do it.

The kit drops a vector's chunks when it makes the scenario, and asserts neither ``released_output`` nor
``persisted_must_not_contain``. Here the chunks reach the model, the kit's engine asserts what it knows, and the
two that it does not know are asserted beside it.
"""

from __future__ import annotations

import json
from typing import Any

from agent_hooks import HostSurface
from agent_hooks.ctk import Capability, load_vectors, run_vector

from hookbus_client.agent import Entry, InMemoryHistory

from .harness import BusHarness, ScriptedModel, Stream

PART = "streaming/incremental"
EXPOSURE_BOUND = "none: a segment is released on the verdict that covers it"

#: Durable before the vector begins, so that what became durable is never nothing.
EARLIER = "Something said in an earlier turn."


class IncrementalHarness(BusHarness):
    """The bus's harness, declaring what the plain run does not: the vector's chunks are in its model's hands.

    After the run ``released`` is what the caller was given, piece by piece, and ``persisted`` the history.
    """

    capabilities = BusHarness.capabilities | {Capability.INCREMENTAL_OUTPUT}

    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        self.released: list[str] = []
        self.persisted: list[dict[str, Any]] = []

    def host_surface(self) -> HostSurface:
        return super().host_surface().with_exposure_bound(EXPOSURE_BOUND)

    def model(self) -> ScriptedModel:
        return ScriptedModel(self.scenario.model_script, self._streams)

    async def drive(self) -> Any:
        history = InMemoryHistory([Entry({"role": "user", "content": EARLIER})])
        stream = self.agent(streaming="incremental", history=history).stream(self.scenario.input["content"])
        try:
            async for text in stream:
                self.released.append(text)
        finally:
            self.persisted = history.messages
        return stream.result.output


async def failures_of(vector: dict[str, Any]) -> list[str]:
    """Run *vector*, chunks and all, over the bus; return every expectation of it that does not hold."""
    harness = IncrementalHarness([_stream(step["respond"]) for step in vector["scenario"]["model_script"]])
    result = await run_vector(harness, vector)
    assert result.status != "skip", result.detail
    return [*result.failures, *_unasserted(vector["expect"], harness)]


def incremental_vectors() -> list[dict[str, Any]]:
    return [vector for vector in load_vectors() if vector.get("part") == PART]


def _stream(respond: dict[str, Any]) -> Stream:
    return Stream(tuple(respond["stream"]), truncated=respond.get("stream_truncated", False))


def _unasserted(expect: dict[str, Any], harness: IncrementalHarness) -> list[str]:
    """The two expectations that the kit's engine passes over."""
    failures = []
    released = "".join(harness.released)
    if released != expect["released_output"]:
        failures.append(f"released_output: got {released!r}, want {expect['released_output']!r}")
    persisted = json.dumps(harness.persisted, ensure_ascii=False)
    for text in expect.get("persisted_must_not_contain", []):
        if text in persisted:
            failures.append(f"persisted_must_not_contain: {text!r} became durable")
    return failures
