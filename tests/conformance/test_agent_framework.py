"""Microsoft Agent Framework passes every vector of its surface, its interceptors answering over the bus."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks.ctk import load_vectors, run_vector

from .agent_framework_harness import AgentFrameworkHarness

pytestmark = pytest.mark.anyio

SURFACE = {capability.value for capability in AgentFrameworkHarness.capabilities}
VECTORS = [vector for vector in load_vectors() if SURFACE.issuperset(vector["capabilities"])]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
async def test_the_vector_holds_in_agent_framework_over_the_bus(vector: dict[str, Any]) -> None:
    result = await run_vector(AgentFrameworkHarness(), vector)

    assert (result.status, result.failures) == ("pass", [])


def test_its_surface_has_forty_seven_vectors() -> None:
    assert len(VECTORS) == 47
