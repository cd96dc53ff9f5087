"""What every test may use: a real NATS server, and anyio's plugin on asyncio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from hookbus.server import EmbeddedServer

# How long an example takes tells of the machine: two of these checks would fail where it is busy.
settings.register_profile("no times", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no times")


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
