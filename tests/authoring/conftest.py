"""An asker with a tenant of its own on the shared server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hookbus.server import EmbeddedServer
from tests.worker.asking import Asker


@pytest.fixture
async def asker(shared_server: EmbeddedServer) -> AsyncIterator[Asker]:
    async with Asker(shared_server.url) as one:
        yield one
