"""``hookbus up``: everything serves, what dies comes back, a change is taken up, and ending loses no answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hookbus
from hookbus import Failure, QuestionFailed
from hookbus.server import EmbeddedServer
from tests.fleet.processes import Up
from tests.worker.asking import context, eventually
from tests.worker.processes import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]

REFUSE = """
[server]
port = 0
[interceptors.refuse-tools]
target = "hookbus_interceptors.authoring.example:RefuseTools"
workers = 2
[interceptors.refuse-tools.configuration]
version = "{version}"
tools = {tools}
"""
SLOW = """
[server]
port = 0
[interceptors.policy]
target = "tests.fleet.interceptors:{target}"
"""


Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the fleet's file and return where it is."""

    def write(text: str) -> Path:
        path = tmp_path / "fleet.toml"
        path.write_text(text, "utf-8")
        return path

    return write


async def reason_of(url: str, name: str) -> str | None:
    async with hookbus.connect(url) as bus:
        verdict = await bus.interceptor(name).intercept(context())
    return verdict.get("reason")  # type: ignore[no-any-return]  # a wire dict


async def test_a_fleet_serves_and_shows_a_table_with_the_policy_of_each(write: Write) -> None:
    with Up(write(REFUSE.format(version="7", tools='["book"]')), workers=2) as up:
        assert await reason_of(up.url, "refuse-tools") == "refuse-tools:refused"
        for name in ("refuse-tools/1", "refuse-tools/2"):
            await asyncio.to_thread(up.wait_for, rf"│ {name} +│ \d+ +│ serving +│ 0 +│ 7\+[0-9a-f]{{12}} ")
        up.signal(signal.SIGTERM)
        assert await asyncio.to_thread(up.wait) == 0
        # The server goes last, or answers on their way would be lost.
        assert up.lines[-1] == "server: ended\n"


async def test_a_change_of_the_file_is_taken_up_by_every_worker_and_shown(write: Write) -> None:
    with Up(write(REFUSE.format(version="1", tools="[]")), workers=2) as up:
        assert await reason_of(up.url, "refuse-tools") is None
        write(REFUSE.format(version="2", tools='["book"]'))
        await asyncio.to_thread(up.wait_for, r"refuse-tools/2 +│ \d+ +│ serving +│ 0 +│ 2\+")
        await asyncio.to_thread(up.wait_for, r"refuse-tools/1 +│ \d+ +│ serving +│ 0 +│ 2\+")
        assert await reason_of(up.url, "refuse-tools") == "refuse-tools:refused"


async def test_a_worker_and_a_server_that_are_killed_come_back(write: Write) -> None:
    with Up(write(REFUSE.format(version="1", tools='["book"]')), workers=2) as up:
        url = up.url
        os.kill(await asyncio.to_thread(up.pid, "refuse-tools/1"), signal.SIGKILL)
        await asyncio.to_thread(up.wait_for, r"refuse-tools/1: died \(signal 9\), again in 0.5 s")
        await asyncio.to_thread(up.wait_for, r"refuse-tools/1: serving", times=2)
        await asyncio.to_thread(up.wait_for, r"│ refuse-tools/1 +│ \d+ +│ serving +│ 1 ")

        os.kill(await asyncio.to_thread(up.pid, "server"), signal.SIGTERM)
        await asyncio.to_thread(up.wait_for, r"server: serving", times=2)
        assert up.wait_for(r"ready at (nats://\S+?);", times=2)[1] == url

        async def answers() -> bool:
            try:
                return await reason_of(url, "refuse-tools") == "refuse-tools:refused"
            except QuestionFailed:
                return False  # the workers have not found the server again yet

        await eventually(answers, within_s=60)


@pytest.mark.parametrize(
    "end",
    [Up.interrupt, lambda up: up.signal(signal.SIGTERM), lambda up: up.signal(signal.SIGHUP)],
    ids=["ctrl-c", "sigterm", "closed terminal"],
)
async def test_ending_loses_no_answer_of_what_is_in_flight(write: Write, end: Callable[[Up], None]) -> None:
    with Up(write(SLOW.format(target="take_a_while")), workers=1) as up:
        async with hookbus.connect(up.url) as bus, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(bus.interceptor("policy").intercept(context()))
            await asyncio.to_thread(up.wait_for, r"│ asked")
            end(up)
            assert (await asked) == {"decision": "allow"}
        assert await asyncio.to_thread(up.wait) == 0


async def test_the_second_signal_kills(write: Write) -> None:
    with Up(write(SLOW.format(target="hang")), workers=1) as up:
        async with hookbus.connect(up.url) as bus, asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(_failure(bus))
            await asyncio.to_thread(up.wait_for, r"│ asked")
            up.signal(signal.SIGTERM)
            await asyncio.to_thread(up.wait_for, r"│ draining")
            up.signal(signal.SIGTERM)
            assert await asyncio.to_thread(up.wait) == 0
            assert await asked
        with pytest.raises(hookbus.CannotConnect):
            async with hookbus.connect(up.url, connect_timeout_s=1.0):
                pass


async def _failure(bus: hookbus.Connection) -> BaseException | None:
    try:
        await bus.interceptor("policy").intercept(context())
    except (QuestionFailed, TimeoutError) as error:
        return error
    return None


async def test_a_command_that_is_killed_leaves_no_worker_and_loses_no_answer(
    write: Write, server: EmbeddedServer
) -> None:
    with Up(
        write(SLOW.format(target="take_a_while").replace("port = 0", f'url = "{server.url}"')), workers=1
    ) as up:
        async with hookbus.connect(server.url) as bus:
            async with asyncio.TaskGroup() as tasks:
                asked = tasks.create_task(bus.interceptor("policy").intercept(context()))
                await asyncio.to_thread(up.wait_for, r"│ asked")
                up.process.kill()
                assert await asked == {"decision": "allow"}
            await eventually(lambda: _fails(bus, Failure.ABSENT), within_s=60)


async def _fails(bus: hookbus.Connection, failure: Failure) -> bool:
    try:
        await bus.interceptor("policy").intercept(context())
    except QuestionFailed as failed:
        return failed.failure is failure
    return False


async def test_a_command_that_is_killed_leaves_no_server(write: Write) -> None:
    async def down() -> bool:
        try:
            async with hookbus.connect(up.url, connect_timeout_s=1.0):
                return False
        except hookbus.CannotConnect:
            return True

    with Up(write(SLOW.format(target="hang")), workers=1) as up:
        up.process.kill()
        await eventually(down, within_s=60)


async def test_a_signal_before_anything_serves_ends_it(write: Write) -> None:
    with Up(write(SLOW.format(target="hang")), workers=0) as up:
        await asyncio.to_thread(up.wait_for, "server: starting")
        up.signal(signal.SIGTERM)
        assert await asyncio.to_thread(up.wait) == 0
        assert not any("policy/1: serving" in line for line in up.lines)


async def test_a_worker_that_cannot_be_made_is_shown_and_the_others_serve(write: Write) -> None:
    broken = '[interceptors.broken]\ntarget = "tests.fleet.interceptors:nobody"\n'
    with Up(write(REFUSE.format(version="1", tools='["book"]') + broken), workers=2) as up:
        await asyncio.to_thread(up.wait_for, r"broken/1: died \(exit 1\)")
        up.wait_for(r"broken/1 │ hookbus: no interceptor at")
        assert await reason_of(up.url, "refuse-tools") == "refuse-tools:refused"


async def test_a_port_that_is_taken_ends_it_with_one_line(write: Write, server: EmbeddedServer) -> None:
    path = write(SLOW.format(target="hang").replace("port = 0", f"port = {server.port}"))
    done = await asyncio.to_thread(_run, path)
    assert done.returncode == 1
    assert f"no server on 127.0.0.1:{server.port}" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


async def test_a_fleet_may_join_a_server_that_runs_already(write: Write, server: EmbeddedServer) -> None:
    with Up(
        write(REFUSE.format(version="1", tools='["book"]').replace("port = 0", f'url = "{server.url}"')), workers=2
    ) as up:
        assert await reason_of(server.url, "refuse-tools") == "refuse-tools:refused"
        assert not any(line.startswith("server") for line in up.lines)


def _run(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hookbus", "up", "--fleet", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40)
