"""What every test may use: a real NATS server, and anyio's plugin on asyncio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookbus.server import EmbeddedServer


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def shared_server() -> Iterator[EmbeddedServer]:
    """One server for the whole run, for tests that do nothing to it."""
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server of the test's own, to be stopped, killed and restarted."""
    with EmbeddedServer() as own:
        yield own
