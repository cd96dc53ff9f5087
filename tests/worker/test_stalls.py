"""A question that waited while the worker stood still has less time than it says (contract, section 2)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from hookbus_interceptors.stalls import TICK_S, Stalls
from tests.worker.asking import Asker, context, headers
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio


async def test_a_question_that_outwaited_its_budget_in_a_stopped_worker_is_dropped(asker: Asker) -> None:
    """Without ``Hb-Expires-Ms``, so that only the stall can tell."""
    by_budget_alone = {"expires_ms": ""}
    with WorkerProcess("tests.worker.interceptors:allow", "policy", url=asker.url, tenant=asker.tenant) as worker:
        assert (await asker.ask(context(), headers(**by_budget_alone))).verdict == {"decision": "allow"}
        worker.signal(signal.SIGSTOP)
        short = {asker.send(context(), headers(200, **by_budget_alone)) for _ in range(20)}
        long = {asker.send(context(), headers(60_000, **by_budget_alone)) for _ in range(20)}
        # Silence for as long as the agents of the short ones would have waited, and a little more.
        with pytest.raises(TimeoutError):
            await asker.answer(within_s=0.4)
        worker.signal(signal.SIGCONT)
        for _ in range(40):
            answer = await asker.answer()
            if answer.subject in short:
                assert answer.error == ("408", "Expired")
            else:
                assert answer.subject in long
                assert answer.verdict == {"decision": "allow"}

        # What is asked once the backlog has been read has all its time again.
        async def with_all_its_time() -> None:
            while (await asker.ask(context(), headers(300, **by_budget_alone))).error[0] == "408":
                pass

        await asyncio.wait_for(with_all_its_time(), 20)


class Backlog:
    """The round trip that says that a backlog has been read, when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Event] = []

    async def __call__(self) -> None:
        self.waiting.append(asyncio.Event())
        await self.waiting[-1].wait()


def stall(for_s: float) -> None:
    """Hold the loop, as a coroutine that does not await would."""
    time.sleep(for_s)


async def turns(holds: Callable[[], Any]) -> None:
    """Let the loop run until *holds*."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # each turn of the loop may be the one
            await asyncio.sleep(0)


async def test_what_is_read_after_a_stall_may_have_come_as_early_as_its_beginning() -> None:
    loop = asyncio.get_running_loop()
    backlog = Backlog()
    stalls = Stalls(loop, backlog)
    began = loop.time()
    stall(10 * TICK_S)
    # At once, before the loop has run at all: this is a message that the same chunk held.
    assert stalls.earliest_arrival() <= began
    await turns(lambda: backlog.waiting)
    assert stalls.earliest_arrival() <= began
    backlog.waiting[0].set()
    await turns(lambda: stalls.earliest_arrival() > began + 10 * TICK_S)
    stalls.close()


async def test_a_stall_while_the_backlog_is_read_needs_another_round_trip() -> None:
    loop = asyncio.get_running_loop()
    backlog = Backlog()
    stalls = Stalls(loop, backlog)
    began = loop.time()
    stall(10 * TICK_S)
    stalls.earliest_arrival()
    await turns(lambda: backlog.waiting)
    stall(10 * TICK_S)
    backlog.waiting[0].set()
    assert stalls.earliest_arrival() <= began
    await turns(lambda: len(backlog.waiting) == 2)
    assert stalls.earliest_arrival() <= began
    backlog.waiting[1].set()
    await turns(lambda: stalls.earliest_arrival() > began + 20 * TICK_S)
    stalls.close()
