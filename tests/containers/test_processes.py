"""Agent and worker in processes of their own, and the server between them in a container."""

from __future__ import annotations

import pytest

from tests.containers.embedded import on_a_server
from tests.end_to_end import test_processes

pytestmark = pytest.mark.anyio

globals().update(on_a_server(test_processes))
