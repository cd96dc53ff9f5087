"""A connection that asks and one that answers, in a tenant of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

import hookbus
from hookbus import Connection
from hookbus.server import EmbeddedServer
from tests.client.workers import Workers

_numbers = itertools.count()


@pytest.fixture
async def bus(shared_server: EmbeddedServer) -> AsyncIterator[Connection]:
    async with hookbus.connect(shared_server.url, tenant=f"client-{next(_numbers)}") as connection:
        yield connection


@pytest.fixture
async def workers(shared_server: EmbeddedServer, bus: Connection) -> AsyncIterator[Workers]:
    async with hookbus.connect(shared_server.url, tenant=bus.settings.tenant) as connection:
        yield Workers(connection)
