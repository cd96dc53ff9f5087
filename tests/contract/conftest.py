"""The servers that the vectors run against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookbus.server import EmbeddedServer
from tests.contract.run_permissions import CONFIG


@pytest.fixture(scope="session")
def granting_server() -> Iterator[EmbeddedServer]:
    """A server that grants an agent and a worker what the contract lists, and nothing else."""
    with EmbeddedServer(config=CONFIG) as server:
        yield server
