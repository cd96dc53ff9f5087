"""One supervised process: it is started again with longer and longer pauses, drained, and at last killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from hookbus_interceptors.fleet import process as module
from hookbus_interceptors.fleet.leash import leashed
from hookbus_interceptors.fleet.process import State, Supervised
from tests.worker.asking import eventually

pytestmark = pytest.mark.anyio

READY = re.compile(r"^ready (\w+)")
#: Serves until SIGTERM, which it takes its time over.
SERVE = """
import signal, sys
def end(*_):
    print("draining")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready one")
signal.pause()
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready one'); signal.pause()"


class Seen:
    """What a supervised process was seen to do; ``until`` waits for it."""

    def __init__(self, *codes: str) -> None:
        self.states: list[State] = []
        self.pauses: list[float] = []
        self.lines: list[str] = []
        self.leash = False
        self._codes = codes
        self._more = anyio.Event()
        self.process = Supervised("one/1", self._command, READY, on_change=self._change, on_line=self._line)

    def _command(self) -> list[str]:
        # The last one again and again.
        code = self._codes[min(self.process.restarts, len(self._codes) - 1)]
        command = [sys.executable, "-uc", code]
        return leashed(command) if self.leash else command

    def _change(self, process: Supervised) -> None:
        self.states.append(process.state)
        if process.state is State.DIED:
            self.pauses.append(process.pause_s)
        self._tell()

    def _line(self, _process: Supervised, line: str) -> None:
        self.lines.append(line)
        self._tell()

    def _tell(self) -> None:
        self._more.set()
        self._more = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(20):
            while not holds():
                await self._more.wait()


@asynccontextmanager
async def running(seen: Seen) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(seen.process.run)
        yield
        seen.process.kill()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.04)


async def test_it_serves_once_it_says_so_and_drains_when_told() -> None:
    seen = Seen(SERVE)
    async with running(seen):
        assert await seen.process.settled()
        assert seen.process.found is not None
        assert seen.process.found[1] == "one"
        assert seen.process.pid is not None
        seen.process.drain()
        await seen.until(lambda: State.ENDED in seen.states)
    assert seen.states == [State.STARTING, State.SERVING, State.DRAINING, State.ENDED]
    assert seen.lines == ["ready one", "draining"]
    assert (seen.process.status, seen.process.restarts, seen.process.pid) == (0, 0, None)


async def test_one_that_dies_is_started_again_after_longer_and_longer_pauses() -> None:
    seen = Seen("raise SystemExit(3)")
    async with running(seen):
        assert not await seen.process.settled()
        await seen.until(lambda: len(seen.pauses) == 5)
        assert seen.process.status == 3
    assert seen.pauses == [0.01, 0.02, 0.04, 0.04, 0.04]


async def test_one_that_served_long_enough_begins_with_the_first_pause_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STEADY_S", 0.0)
    seen = Seen("pass", "pass", "print('ready one')")
    async with running(seen):
        await seen.until(lambda: len(seen.pauses) == 4)
    assert seen.pauses == [0.01, 0.02, 0.01, 0.01]


async def test_one_that_was_killed_serves_again() -> None:
    seen = Seen(SERVE)
    async with running(seen):
        await seen.process.settled()
        first = seen.process.process
        assert first is not None
        first.kill()
        await seen.until(lambda: seen.states.count(State.SERVING) == 2)
        assert seen.process.status == -9
        assert seen.process.restarts == 1
        assert seen.process.pid not in (None, first.pid)


async def test_one_that_does_not_end_is_killed_after_its_time_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_S", 0.05)
    seen = Seen(STUBBORN)
    async with running(seen):
        await seen.process.settled()
        seen.process.drain()
        await seen.until(lambda: State.ENDED in seen.states)
        assert seen.process.status == -9


async def test_one_that_is_told_between_two_lives_is_started_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 3600.0)
    seen = Seen("raise SystemExit(3)")
    seen.process.pause_s = 3600.0
    async with running(seen):
        await seen.until(lambda: State.DIED in seen.states)
        seen.process.drain()
        await seen.until(lambda: State.ENDED in seen.states)
    assert seen.process.restarts == 0


async def test_what_it_left_behind_is_killed_with_it() -> None:
    left = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid); sys.exit(3)"
    seen = Seen(left, SERVE)
    async with running(seen):
        await seen.until(lambda: State.SERVING in seen.states)
        await eventually(lambda: _is_gone(int(seen.lines[0])))


async def test_what_it_left_behind_out_of_reach_does_not_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_WORDS_S", 0.05)
    left = """
import subprocess, sys
print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)
sys.exit(3)
"""
    seen = Seen(left, SERVE)
    async with running(seen):
        await seen.until(lambda: State.SERVING in seen.states)
    os.kill(int(seen.lines[0]), signal.SIGKILL)


async def _is_gone(pid: int) -> bool:
    # One that nobody has waited for is gone, too.
    status = await anyio.run_process(["ps", "-o", "stat=", "-p", str(pid)], check=False)
    return status.stdout.strip() in (b"", b"Z")


async def test_what_runs_on_a_leash_is_told_once_when_the_leash_is_let_go() -> None:
    async with await anyio.open_process(leashed([sys.executable, "-uc", SERVE]), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        assert await lines.receive_until(b"\n", 100) == b"ready one"
        await process.stdin.aclose()
        assert await lines.receive_until(b"\n", 100) == b"draining"
        assert await process.wait() == 0
        with pytest.raises(anyio.IncompleteRead):
            await lines.receive_until(b"\n", 100)


@pytest.mark.parametrize(
    ("code", "status"), [("raise SystemExit(3)", 3), ("import os; os.abort()", -signal.SIGABRT)]
)
async def test_a_leash_ends_as_what_it_holds_ended(code: str, status: int) -> None:
    async with await anyio.open_process(leashed([sys.executable, "-c", code]), stdin=subprocess.PIPE) as process:
        assert await process.wait() == status


async def test_a_leash_hands_on_what_it_is_told() -> None:
    seen = Seen(SERVE)
    seen.leash = True
    async with running(seen):
        assert await seen.process.settled()
        seen.process.drain()
        await seen.until(lambda: State.ENDED in seen.states)
    assert seen.lines == ["ready one", "draining"]
    assert seen.process.status == 0


async def test_a_line_without_an_end_is_shown_in_pieces_and_its_rest_at_the_end() -> None:
    code = "import sys; sys.stdout.write('x' * 70000 + '\\nunended')"
    seen = Seen(code)
    async with running(seen):
        await seen.until(lambda: "unended" in seen.lines)
    assert "".join(seen.lines[:2]) == "x" * 70000


async def test_cancelling_kills() -> None:
    seen = Seen(STUBBORN)
    process: Any = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(seen.process.run)
        await seen.process.settled()
        process = seen.process.process
        tasks.cancel_scope.cancel()
    assert process.returncode == -9
