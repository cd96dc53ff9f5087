"""Bent input of every kind: nothing crashes, nothing hangs, nothing permits that must not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SLOW = ("settings", "keys", "wire")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What a worker or a connection says about each bent message would fill the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", TARGETS)
def test_bent_input_neither_crashes_nor_hangs_nor_permits(name: str) -> None:
    make, _ = TARGETS[name]
    with asyncio.Runner() as runner:
        target: Target = runner.run(make().__aenter__())

        @settings(
            max_examples=100 if name in SLOW else 300,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.randoms(use_true_random=False))
        def check(random: Random) -> None:
            runner.run(_check(target, random))

        try:
            check()
        finally:
            runner.run(target.__aexit__(None, None, None))


async def _check(target: Target, random: Random) -> None:
    async with asyncio.timeout(20):
        await target.check(target.case(random))
