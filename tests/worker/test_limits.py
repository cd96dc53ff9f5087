"""How much a worker takes on, and what becomes of a call that outlives its question."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

from hookbus_interceptors import InterceptorHangs, Worker, dispatch
from hookbus_interceptors.calling import Calling
from hookbus_interceptors.current import CURRENT, CurrentQuestion
from hookbus_interceptors.threads import Outcome, Threads
from tests.worker import interceptors
from tests.worker.asking import Asker, context, headers
from tests.worker.test_questions import abandoned

pytestmark = pytest.mark.anyio

ALLOW = {"decision": "allow"}


class Gate:
    """An interceptor that answers when it is opened; ``entered`` counts who came in."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.entered = 0
        self.cancelled = 0

    async def intercept(self, _context: dict[str, Any]) -> dict[str, str]:
        self.entered += 1
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ALLOW


class ThreadGate:
    """The same in threads; each one that hangs is let go when the test is over."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)

    def intercept(self, context: dict[str, Any]) -> dict[str, str]:
        if context["target"] != "pass":
            self.entered.release()
            self.opened.wait()
        return ALLOW


@pytest.mark.parametrize("make", [Gate, ThreadGate])
async def test_one_question_above_the_bound_is_answered_busy_at_once(asker: Asker, make: Any) -> None:
    gate = make()
    async with Worker(asker.bus, gate, name="policy", concurrency=3):
        for _ in range(3):
            asker.send(context(), headers(60_000))
        answer = await asker.ask(None, headers(60_000, id="fourth"))
        assert answer.error == ("429", "Busy")
        assert answer.headers["Hb-Id"] == "fourth"
        assert int(answer.headers["Retry-After-Ms"]) >= 1
        gate.opened.set()
        assert [(await asker.answer()).verdict for _ in range(3)] == [ALLOW] * 3
        # A slot that is free again serves again.
        assert (await asker.ask()).verdict == ALLOW


async def test_questions_are_answered_at_the_same_time_and_in_any_order(asker: Asker) -> None:
    gates = {name: asyncio.Event() for name in "abc"}

    async def wait_for_own(context: dict[str, Any]) -> dict[str, str]:
        await gates[context["target"]].wait()
        return {"decision": "allow", "message": context["target"]}

    async with Worker(asker.bus, wait_for_own, name="policy"):
        for name in "abc":
            asker.send(context(name))
        for name in "cab":
            gates[name].set()
            assert (await asker.answer()).verdict["message"] == name


async def test_fifty_threads_work_at_the_same_time(asker: Asker) -> None:
    together = threading.Barrier(50)

    def meet(_context: dict[str, Any]) -> dict[str, str]:
        together.wait()
        return ALLOW

    async with Worker(asker.bus, meet, name="policy", concurrency=50):
        for _ in range(50):
            asker.send(context())
        assert [(await asker.answer()).verdict for _ in range(50)] == [ALLOW] * 50


@pytest.mark.parametrize("make", [Gate, ThreadGate])
async def test_a_question_that_expires_while_it_runs_is_abandoned_and_its_slot_freed(
    asker: Asker, make: Any
) -> None:
    gate = make()
    async with Worker(asker.bus, gate, name="policy", concurrency=2) as worker:
        asker.send(context(), headers(200))
        asker.send(context(), headers(60_000))
        await abandoned(worker, 1)
        # Of two slots one is free, although a thread still holds on.
        asker.send(context("pass"))
        if make is Gate:
            gate.opened.set()
        assert (await asker.answer()).verdict == ALLOW
        gate.opened.set()
        assert (await asker.answer()).verdict == ALLOW
        await asker.settled()
    # The abandoned question never got an answer, not even a late one.
    assert asker.unread == 0
    assert worker.tallies[0].data == {"abandoned": 1, "answered": 2}


async def test_a_coroutine_is_cancelled_when_its_question_expires(asker: Asker) -> None:
    gate = Gate()
    async with Worker(asker.bus, gate, name="policy") as worker:
        asker.send(context(), headers(200))
        await abandoned(worker, 1)
        await asker.settled()
        assert (gate.entered, gate.cancelled) == (1, 1)


async def test_an_awaitable_that_a_thread_returns_too_late_is_not_awaited(asker: Asker) -> None:
    opened = threading.Event()
    started = []

    async def verdict() -> dict[str, str]:
        started.append(1)
        return ALLOW

    def late(_context: dict[str, Any]) -> Any:
        opened.wait()
        return verdict()

    async with Worker(asker.bus, late, name="policy") as worker:
        asker.send(context(), headers(200))
        await abandoned(worker, 1)
        opened.set()
        assert (await asker.ask()).verdict == ALLOW
    assert started == [1]


async def test_as_many_hanging_calls_as_slots_end_the_worker(asker: Asker) -> None:
    gate = ThreadGate()
    worker = Worker(asker.bus, gate, name="policy", concurrency=3)
    life = asyncio.create_task(worker.run())
    await asker.settled()
    # Two hang: the slots are free and the worker goes on.
    for _ in range(2):
        asker.send(context("hang"), headers(200))
    await abandoned(worker, 2)
    assert (await asker.ask(context("pass"))).verdict == ALLOW
    asker.send(context("hang"), headers(200))
    with pytest.raises(InterceptorHangs, match="3 calls of the interceptor hang") as caught:
        await life
    assert caught.value.calls == 3
    gate.opened.set()


async def test_a_call_that_was_only_late_does_not_count_as_hanging(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "HANGING_AFTER_S", 1.0)
    gate = ThreadGate()
    async with Worker(asker.bus, gate, name="policy", concurrency=1) as worker:
        for late in range(1, 5):
            asker.send(context("late"), headers(100))
            await abandoned(worker, late)
            gate.opened.set()
            # With one slot, this answer comes from a worker that has not given up.
            assert (await asker.ask(context("pass"))).verdict == ALLOW
            gate.opened.clear()


async def test_coroutines_that_take_no_cancellation_end_the_worker_too(asker: Asker) -> None:
    ended = asyncio.Event()

    async def stubborn(_context: dict[str, Any]) -> dict[str, str]:
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        return ALLOW

    worker = Worker(asker.bus, stubborn, name="policy", concurrency=2)
    life = asyncio.create_task(worker.run())
    await asker.settled()
    for _ in range(2):
        asker.send(context(), headers(200))
    with pytest.raises(InterceptorHangs):
        await life
    ended.set()


async def test_a_hanging_interceptor_harms_no_other_question(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.misbehave, name="policy", concurrency=8) as worker:
        for _ in range(5):
            asker.send(context("hang"), headers(200))
        for _ in range(20):
            assert (await asker.ask(context("behave"))).verdict == ALLOW
        await abandoned(worker, 5)


async def test_a_coroutine_that_holds_the_loop_past_its_deadline_gets_no_answer_out(asker: Asker) -> None:
    async def hold(_context: dict[str, Any]) -> dict[str, str]:
        threading.Event().wait(0.4)
        return ALLOW

    async with Worker(asker.bus, hold, name="policy") as worker:
        asker.send(context(), headers(200))
        await abandoned(worker, 1)
        await asker.settled()
    assert asker.unread == 0


@pytest.mark.parametrize("in_task", [False, True], ids=["thread", "task"])
@pytest.mark.parametrize("left_s", [-0.001, 60.0], ids=["expired", "live"])
async def test_a_call_whose_question_expired_before_it_could_start_is_not_started(
    in_task: bool, left_s: float
) -> None:
    started: list[Any] = []

    async def coroutine(context: dict[str, Any]) -> dict[str, str]:
        started.append(context)
        return ALLOW

    def sync(context: dict[str, Any]) -> dict[str, str]:
        started.append(context)
        return ALLOW

    loop = asyncio.get_running_loop()
    threads = Threads(loop, "expiring")
    ended: asyncio.Future[Outcome] = loop.create_future()
    variables = contextvars.copy_context()
    variables.run(CURRENT.set, CurrentQuestion("id", "policy", "input", "agent", time.monotonic() + left_s))
    Calling(coroutine if in_task else sync, loop, threads).start({}, variables, ended.set_result)
    outcome = await ended
    threads.close()
    if left_s > 0:
        assert (outcome.body, started) == (b'{"decision":"allow"}', [{}])
    else:
        assert isinstance(outcome.error, TimeoutError)
        assert started == []
