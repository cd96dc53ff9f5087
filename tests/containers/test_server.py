"""A server in a container is killed, restarted, stopped and continued, while an agent emits."""

from __future__ import annotations

import pytest

from tests.containers.embedded import on_a_server
from tests.faults import test_server

pytestmark = pytest.mark.anyio

agent = test_server.agent
globals().update(on_a_server(test_server))
