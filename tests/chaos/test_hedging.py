"""What a stopped worker of two costs."""

from __future__ import annotations

import pytest

from hookbus.server import EmbeddedServer
from tests.chaos.hedging import ALLOWED, HEDGE_AFTER_S, lost

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_with_hedges_a_stopped_worker_of_two_costs_at_most_one_question_in_a_hundred(
    server: EmbeddedServer,
) -> None:
    assert await lost(server.url, 1_000, hedge_after_s=HEDGE_AFTER_S) <= 1_000 * ALLOWED


async def test_without_hedges_it_costs_more(server: EmbeddedServer) -> None:
    assert await lost(server.url, 100, hedge_after_s=None) > 100 * ALLOWED
