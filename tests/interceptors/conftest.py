"""What the interceptors that keep their state in JetStream are tested on."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from hookbus.server import EmbeddedServer


@pytest.fixture(scope="module")
def jetstream() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(jetstream=True) as server:
        yield server


@pytest.fixture
def tenant() -> str:
    return f"t{uuid4().hex}"
