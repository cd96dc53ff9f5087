"""Overload, short: what is counted and in which order, not how fast."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker
from tests.chaos.metered import UNTIL, Metered, read_count
from tests.chaos.overload import Agent, Phase, agent, measure, shortcomings

pytestmark = pytest.mark.anyio


class Gate:
    """An interceptor that allows once it is opened."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    async def intercept(self, _context: dict[str, Any]) -> dict[str, str]:
        await self.opened.wait()
        return {"decision": "allow"}


async def busy(caller: Agent, count: int) -> None:
    """Call again and again until so many calls have been refused as busy."""
    while caller.classes["busy"] < count:
        await caller.call()


async def test_a_full_group_says_busy_while_its_slots_are_held_and_then_answers_what_it_took(
    server: EmbeddedServer,
) -> None:
    gate = Gate()
    async with AsyncExitStack() as stack, agent(server.url, deadline_s=20.0) as caller:
        for _ in range(2):
            bus = await stack.enter_async_context(hookbus.connect(server.url))
            await stack.enter_async_context(Worker(bus, gate, name="metered", concurrency=2))
        async with asyncio.TaskGroup() as calls:
            # Four slots hold four of the lanes; the other four are refused again and again, and end.
            lanes = {calls.create_task(busy(caller, 40)) for _ in range(8)}
            while len(lanes) > 4:
                _, lanes = await asyncio.wait(lanes, return_when=asyncio.FIRST_COMPLETED)
            assert caller.classes == Counter(busy=caller.classes["busy"])
            gate.opened.set()
        assert caller.classes["in time"] == 4
        assert caller.classes.total() == caller.classes["busy"] + 4


@pytest.mark.slow
async def test_at_three_times_capacity_nothing_is_evaluated_for_a_caller_that_has_denied(
    server: EmbeddedServer,
) -> None:
    phase = await measure(server.url, "short", times=3, for_s=2.5, stop=True)
    assert phase.too_late == 0
    assert phase.evaluated >= phase.classes["in time"] > 0
    assert phase.classes["busy"] > 0
    # While a worker was stopped, agents denied by themselves; what it found when it went on, it left alone.
    assert phase.classes["silent"] > 0


async def test_an_evaluation_after_its_agents_deadline_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    metered = Metered()
    for until_s in (0.0, time.monotonic() + 60):
        await metered.intercept({"target": {UNTIL: until_s}})
    at_exit[0]()
    count = read_count(capsys.readouterr().out.splitlines())
    assert (count.evaluated, count.too_late) == (2, 1)
    with pytest.raises(ValueError, match="has not told"):
        read_count(["ready"])


async def test_too_little_goodput_and_anything_too_late_are_shortcomings() -> None:
    good = Phase("1 ×", 400.0, 270.0, {}, 1.0, 2.0, 1000, 0, 80.0)
    assert good.capacity_per_s == 400
    overloaded = Phase("3 ×", 1200.0, 365.0, {}, 1.0, 2.0, 1000, 0, 80.0)
    slow = Phase("3 ×", 1200.0, 350.0, {}, 1.0, 2.0, 1000, 2, 80.0)
    assert shortcomings([good, overloaded]) == []
    assert shortcomings([good, slow]) == [
        "3 ×: 2 evaluated too late",
        "350/s in time at three times a capacity of 400/s",
    ]
