"""A question that waited while the worker stood still has less time than it says (contract, section 2)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from hookbus_interceptors.stalls import IDLE_TICK_S, TICK_S, Stalls
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


async def test_a_worker_that_idles_wakes_seldom_and_still_sees_a_stall() -> None:
    loop = Ticking()
    backlog = Backlog()
    stalls = Stalls(loop, backlog)
    wakes = loop.run_until(10.0)
    assert wakes < 10.0 / IDLE_TICK_S + 60
    assert stalls.earliest_arrival() == loop.now_s
    # From the first question on it looks as often as ever.
    assert loop.run_until(11.0) == pytest.approx(1.0 / TICK_S, abs=2)

    loop.run_until(20.0)
    before = loop.now_s
    loop.now_s += IDLE_TICK_S + 2 * TICK_S
    assert before - IDLE_TICK_S <= stalls.earliest_arrival() <= before
    stalls.close()
    assert loop.run_until(30.0) == 0


class Ticking:
    """A loop of which only time and timers are there, and no time passes by itself."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, Callable[[], None], asyncio.TimerHandle]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, [], asyncio.get_running_loop())
        self._due.append((when, callback, handle))
        return handle

    def create_task(self, coroutine: Any, name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    def run_until(self, end_s: float) -> int:
        """Let time pass to *end_s*; return how many timers woke somebody."""
        wakes = 0
        while live := [due for due in self._due if not due[2].cancelled() and due[0] <= end_s]:
            next_due = min(live, key=lambda due: due[0])
            self._due.remove(next_due)
            self.now_s = next_due[0]
            next_due[1]()
            wakes += 1
        self.now_s = end_s
        return wakes
