"""The connection on its worst day, in front of a server in a container."""

from __future__ import annotations

import pytest

from tests.bus import test_connection
from tests.containers.embedded import on_a_server

pytestmark = pytest.mark.anyio

globals().update(on_a_server(test_connection))
