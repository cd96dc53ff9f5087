"""The life of a worker in code: what run, drain, leaving and cancelling promise."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors import SubscriptionRefused, Worker
from tests.worker import interceptors
from tests.worker.asking import Asker, context, eventually, headers
from tests.worker.test_limits import ALLOW, Gate, ThreadGate

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("make", [Gate, ThreadGate])
async def test_draining_takes_nothing_new_and_answers_all_that_was_taken(asker: Asker, make: Any) -> None:
    gate = make()
    worker = Worker(asker.bus, gate, name="policy")
    life = asyncio.create_task(worker.run())
    await asker.settled()
    sent = {asker.send(context()) for _ in range(20)}
    worker.drain()
    worker.drain()
    async with hookbus.connect(asker.url, tenant=asker.tenant) as other:
        policy = other.interceptor("policy")

        async def is_absent() -> bool:
            with pytest.raises((hookbus.QuestionFailed, TimeoutError)) as caught:
                async with asyncio.timeout(0.2):
                    await policy.intercept(context())
            return "absent" in str(caught.value)

        await eventually(is_absent)
    assert not life.done()
    gate.opened.set()
    assert {(await asker.answer()).subject for _ in range(20)} == sent
    await life


async def test_a_worker_that_is_drained_before_it_runs_returns_at_once(asker: Asker) -> None:
    worker = Worker(asker.bus, interceptors.allow, name="policy")
    worker.drain()
    await worker.run()


async def test_a_worker_lives_once(asker: Asker) -> None:
    worker = Worker(asker.bus, interceptors.allow, name="policy")
    async with worker:
        pass
    with pytest.raises(RuntimeError, match="make a new one"):
        await worker.run()


async def test_a_worker_that_was_entered_is_serving_already(asker: Asker) -> None:
    async with hookbus.connect(asker.url, tenant=asker.tenant) as workers:
        for _ in range(20):
            async with Worker(workers, interceptors.allow, name="policy"):
                assert (await asker.ask()).verdict == ALLOW


async def test_leaving_answers_what_was_taken(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.take_a_while, name="policy"):
        sent = {asker.send(context()) for _ in range(10)}
    # Every answer has been written by now, and one round trip brings them all.
    await asker.settled()
    assert asker.unread == 10
    assert {(await asker.answer()).subject for _ in range(10)} == sent


@pytest.mark.parametrize("make", [Gate, ThreadGate])
async def test_cancelling_cuts_short_without_waiting(asker: Asker, make: Any) -> None:
    gate = make()
    worker = Worker(asker.bus, gate, name="policy")
    life = asyncio.create_task(worker.run())
    await asker.settled()
    asker.send(context(), headers(60_000))
    await asker.settled()
    life.cancel()
    # On its way before the subscription ends: handed over, and not begun.
    asker.send(context(), headers(60_000))
    with pytest.raises(asyncio.CancelledError):
        await life
    begun = worker.tallies[0].num_requests
    gate.opened.set()
    assert begun == 1
    # The subscription is gone and nothing was answered.
    async with hookbus.connect(asker.url, tenant=asker.tenant) as other:
        with pytest.raises(hookbus.QuestionFailed, match="absent"):
            await other.interceptor("policy").intercept(context())
    assert asker.unread == 0
    if isinstance(gate, Gate):
        assert gate.cancelled == 1


async def test_an_error_in_the_block_is_raised_without_waiting_for_answers(asker: Asker) -> None:
    gate = Gate()

    async def fail_while_asked() -> None:
        async with Worker(asker.bus, gate, name="policy"):
            asker.send(context(), headers(60_000))
            await asker.settled()
            raise KeyError

    with pytest.raises(KeyError):
        await fail_while_asked()
    assert gate.cancelled == 1


async def test_leaving_the_last_worker_leaves_no_thread_behind(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.allow, name="threaded"):
        await asker.ask(interceptor="threaded")
        ours = [thread for thread in threading.enumerate() if thread.name == "interceptor threaded 1"]
        assert ours
        assert all(thread.daemon for thread in ours)
    for thread in ours:
        thread.join(10)
        assert not thread.is_alive()


def permitting(worker: str) -> str:
    return (
        "authorization { users = [\n"
        '  { user: asker, password: pw, permissions: { publish: ">", subscribe: ">" } }\n'
        f'  {{ user: worker, password: pw, permissions: {{ publish: ">", subscribe: {worker} }} }}\n'
        "] }"
    )


ALL = '">"'
NO_QUESTIONS = '{ allow: ">", deny: "hb.v1.*.ctx.>" }'


def as_user(server: EmbeddedServer, user: str) -> str:
    return server.url.replace("nats://", f"nats://{user}:pw@")


async def test_a_refused_subscription_is_an_error_that_says_what_to_check() -> None:
    with EmbeddedServer(config=permitting(NO_QUESTIONS)) as server:
        async with hookbus.connect(as_user(server, "worker"), tenant="acme") as bus:
            with pytest.raises(SubscriptionRefused, match="HOOKBUS_CREDS") as caught:
                await Worker(bus, interceptors.allow, name="policy").run()
    assert caught.value.subject == "hb.v1.acme.ctx.policy.*.*"


async def test_a_permission_that_is_withdrawn_ends_the_worker() -> None:
    with EmbeddedServer(config=permitting(ALL)) as server:
        async with hookbus.connect(as_user(server, "worker")) as bus:
            worker = Worker(bus, interceptors.allow, name="policy")
            life = asyncio.create_task(worker.run())
            await bus.flush(timeout_s=5)
            server.reload(permitting(NO_QUESTIONS))
            with pytest.raises(SubscriptionRefused):
                await life


async def test_a_worker_without_the_right_to_srv_serves_all_the_same() -> None:
    with EmbeddedServer(config=permitting('{ allow: ">", deny: "$SRV.>" }')) as server:
        async with Asker(as_user(server, "asker")) as asker:
            async with hookbus.connect(as_user(server, "worker"), tenant=asker.tenant) as bus:
                async with Worker(bus, interceptors.allow, name="policy"):
                    assert (await asker.ask()).verdict == ALLOW


async def test_a_worker_serves_again_when_the_server_is_back(server: EmbeddedServer) -> None:
    tenant = "acme"
    async with (
        hookbus.connect(server.url, tenant=tenant) as workers,
        hookbus.connect(server.url, tenant=tenant) as bus,
    ):
        policy = bus.interceptor("policy")
        async with Worker(workers, interceptors.Deny, name="policy"):
            assert (await policy.intercept(context()))["decision"] == "deny"
            for _ in range(2):
                server.restart()

                async def answers() -> bool:
                    try:
                        return (await policy.intercept(context()))["decision"] == "deny"
                    except hookbus.QuestionFailed:
                        return False

                await eventually(answers)


async def test_a_worker_ends_although_the_server_is_gone(server: EmbeddedServer) -> None:
    gate = Gate()
    async with Asker(server.url) as asker:
        async with Worker(asker.bus, gate, name="policy"):
            asker.send(context())
            await asker.settled()
            server.kill()
            gate.opened.set()
        assert asker.unread == 0


async def test_two_workers_of_one_name_share_the_questions(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy") as one:
        async with hookbus.connect(asker.url, tenant=asker.tenant) as bus:
            async with Worker(bus, interceptors.allow, name="policy") as two:
                for _ in range(200):
                    asker.send(context())
                answered = {(await asker.answer()).headers["Hb-Worker"] for _ in range(200)}
                assert answered == {one.id, two.id}
                assert one.tallies[0].num_requests + two.tallies[0].num_requests == 200


async def test_a_worker_of_another_name_is_not_asked(asker: Asker) -> None:
    asked: list[Any] = []
    async with Worker(asker.bus, interceptors.allow, name="policy"), Worker(asker.bus, asked.append, name="other"):
        assert (await asker.ask()).verdict == ALLOW
    assert asked == []
