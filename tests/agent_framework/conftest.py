"""Where the tests of this folder find their server."""

from __future__ import annotations

import pytest

from hookbus.server import EmbeddedServer


@pytest.fixture(scope="session")
def nats_url(shared_server: EmbeddedServer) -> str:
    return shared_server.url
