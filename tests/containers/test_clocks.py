"""Clocks that are wrong, stale questions and a loop that stalls, around a server in a container."""

from __future__ import annotations

import pytest

from tests.containers.embedded import on_a_server
from tests.faults import test_clocks

pytestmark = pytest.mark.anyio

right_clock = test_clocks.right_clock
globals().update(on_a_server(test_clocks))
