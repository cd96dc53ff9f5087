"""A worker as a process: it serves, drains, exits, and says why."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from typing import Any

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from tests.worker.asking import Asker, context, headers
from tests.worker.processes import COMMAND, ROOT, WorkerDied, WorkerProcess

pytestmark = pytest.mark.anyio

ALLOW = {"decision": "allow"}


def process(asker: Asker, target: str, *arguments: str) -> WorkerProcess:
    return WorkerProcess(
        f"tests.worker.interceptors:{target}", "policy", *arguments, url=asker.url, tenant=asker.tenant
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_process_answers_until_it_is_told_to_end(asker: Asker, number: signal.Signals) -> None:
    options = ("--policy-version", "v7", "--point", "pre_tool_call", "--point", "input")
    with process(asker, "Deny", *options) as worker:
        async with hookbus.connect(asker.url, tenant=asker.tenant) as bus:
            verdict = await bus.interceptor("policy").intercept(context())
        assert verdict == {"decision": "deny", "reason": "because", "message": "pre_tool_call"}
        assert (await asker.ask()).headers["Hb-Policy"] == "v7"
        worker.signal(number)
        assert worker.wait() == 0
    assert "".join(worker.output).count("ctx.policy.") == 2


@pytest.mark.parametrize("target", ["take_a_while", "take_a_while_in_a_thread"])
async def test_sigterm_loses_no_answer_of_what_is_in_flight(asker: Asker, target: str) -> None:
    with process(asker, target) as worker:
        sent = {asker.send(context()) for _ in range(50)}
        # The server has routed all of them; how many the worker has read is its own affair.
        await asker.settled()
        worker.signal(signal.SIGTERM)
        answers = [await asker.answer() for _ in range(50)]
        assert {answer.subject for answer in answers} == sent
        assert all(answer.verdict == ALLOW for answer in answers)
        assert worker.wait() == 0


async def test_workers_replaced_under_load_lose_no_question(asker: Asker) -> None:
    answered: list[Any] = []
    enough = asyncio.Event()

    async def keep_asking(policy: hookbus.RemoteInterceptor) -> None:
        while not enough.is_set():
            answered.append(await policy.intercept(context()))

    async with hookbus.connect(asker.url, tenant=asker.tenant) as bus:
        with process(asker, "allow") as old, process(asker, "AllowInTask") as new:
            async with asyncio.TaskGroup() as asking:
                for _ in range(20):
                    asking.create_task(keep_asking(bus.interceptor("policy")))
                await asyncio.to_thread(old.wait_for_line, "ready")
                old.signal(signal.SIGTERM)
                assert await asyncio.to_thread(old.wait) == 0
                enough.set()
            assert (await bus.interceptor("policy").intercept(context())) == ALLOW
            new.signal(signal.SIGTERM)
            assert new.wait() == 0
    # A question that was lost would have raised.
    assert len(answered) >= 20
    assert all(verdict == ALLOW for verdict in answered)


async def test_a_second_sigterm_ends_at_once(asker: Asker) -> None:
    with process(asker, "hang") as worker:
        asker.send(context(), headers(3_600_000))
        await asker.settled()
        worker.signal(signal.SIGTERM)
        worker.wait_for_line("draining")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 128 + signal.SIGTERM


async def test_a_second_signal_ends_a_worker_whose_loop_is_held(asker: Asker) -> None:
    with process(asker, "hold_the_loop") as worker:
        asker.send(context(), headers(3_600_000))
        await asker.settled()
        worker.wait_for_line("holding")
        # Two different ones: two of a kind may arrive as one.
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGINT)
        assert worker.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


@pytest.mark.parametrize("target", ["hang", "hang_against_cancellation"])
async def test_as_many_hanging_calls_as_slots_end_the_process_with_a_failure(asker: Asker, target: str) -> None:
    with process(asker, target, "--concurrency", "2") as worker:
        for _ in range(2):
            asker.send(context(), headers(200))
        # The wait below holds this process's loop, and with it what is still to be written.
        await asker.settled()
        assert worker.wait() == 1
    assert "2 calls of the interceptor hang" in "".join(worker.output)


@pytest.mark.parametrize("target", ["hang", "hang_against_cancellation", "hang_in_the_executor"])
async def test_exit_never_waits_for_a_call_that_hangs(asker: Asker, target: str) -> None:
    with process(asker, target) as worker:
        asker.send(context(), headers(200))
        await asker.settled()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


@pytest.mark.parametrize("target", ["misbehave", "exit_in_task"])
async def test_an_interceptor_that_exits_does_not_end_the_worker(asker: Asker, target: str) -> None:
    with process(asker, target):
        for _ in range(2):
            assert (await asker.ask(context("exit"))).error == ("500", "SystemExit")


async def test_a_worker_process_says_nothing_of_a_payload(asker: Asker) -> None:
    with process(asker, "misbehave") as worker:
        for target in ("raise", "set", "nan", "large"):
            await asker.ask(context(target, note="zebra-7431"))
        await asker.ask(b'{"agent":{"id":"zebra-7431"}}')
        worker.signal(signal.SIGTERM)
        worker.wait()
    assert "ValueError" in "".join(worker.output)
    assert "zebra-7431" not in "".join(worker.output)


@pytest.mark.parametrize(
    ("target", "arguments", "says"),
    [
        ("allows", (), "has no 'allows'"),
        ("ROOT", (), "has no 'ROOT'"),
        ("threading", (), "is not an interceptor"),
        ("allow", ("--point", "pre_tool_cal"), "the interception points are"),
        ("allow", ("--concurrency", "0"), "--concurrency"),
        ("allow", ("--creds", "nowhere.creds"), "names a file that does not exist"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    shared_server: EmbeddedServer, target: str, arguments: tuple[str, ...], says: str
) -> None:
    with pytest.raises(WorkerDied) as caught:
        WorkerProcess(
            f"tests.worker.interceptors:{target}", "policy", *arguments, url=shared_server.url
        ).__enter__()
    words = " ".join(str(caught.value).replace("│", " ").split())
    assert says in words
    assert "Traceback" not in words


def test_a_server_that_is_not_there_is_one_line_and_a_failure() -> None:
    ended = subprocess.run(
        [*COMMAND, "tests.worker.interceptors:allow", "--name", "policy", "--url", "nats://127.0.0.1:9"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "no NATS server could be joined at nats://127.0.0.1:9" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_refused_subscription_is_one_line_and_a_failure() -> None:
    config = (
        "authorization { users = [\n"
        '  { user: worker, password: pw, permissions: { publish: ">", subscribe: "_INBOX.>" } }\n'
        "] }"
    )
    with EmbeddedServer(config=config) as server:
        url = server.url.replace("nats://", "nats://worker:pw@")
        with pytest.raises(WorkerDied, match="does not permit the subscription to") as caught:
            WorkerProcess("tests.worker.interceptors:allow", "policy", url=url).__enter__()
    assert "Traceback" not in str(caught.value)
    assert "pw" not in str(caught.value)
