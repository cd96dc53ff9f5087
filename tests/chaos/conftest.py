"""One stage for the short soaks: to start its processes takes longer than most of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.chaos.soak import Stage


@pytest.fixture(scope="package")
async def stage() -> AsyncIterator[Stage]:
    async with Stage() as staged:
        yield staged
