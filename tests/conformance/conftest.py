"""The kit's pytest plugin drives our harness, over one server, unless the command line names another."""

from __future__ import annotations

import pytest

from hookbus.server import EmbeddedServer

from .deployment import Deployment
from .harness import BusHarness


@pytest.fixture(autouse=True)
def _on_the_shared_server(shared_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deployment, "url", shared_server.url)


@pytest.fixture
def agent_hooks_harness(request: pytest.FixtureRequest, agent_hooks_harness: type) -> type:
    return agent_hooks_harness if request.config.getoption("--agent-hooks-harness") else BusHarness
