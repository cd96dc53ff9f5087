"""The proof that a vector's questions travelled: without the bus between them, no vector passes."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks.ctk import Harness, load_vectors, run_vector

from .agent_framework_harness import AgentFrameworkHarness
from .deployment import Deployment
from .harness import BusHarness

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("harness", [BusHarness, AgentFrameworkHarness], ids=lambda harness: harness.name)
async def test_a_verdict_that_no_worker_was_asked_for_fails_its_vector(
    harness: type[Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_the_agents_own_hands(self: Deployment, name: str, interceptor: Any) -> Any:
        return interceptor

    (vector,) = (vector for vector in load_vectors() if vector["id"] == "AH-CTK-001")
    assert (await run_vector(harness(), vector)).status == "pass"

    monkeypatch.setattr(Deployment, "remote", in_the_agents_own_hands)
    assert (await run_vector(harness(), vector)).status == "fail"
