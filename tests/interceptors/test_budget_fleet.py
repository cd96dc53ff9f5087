"""The budget with worker processes and agent processes: exact under a race, under kills, and over a reload."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

import hookbus
from hookbus.codec import Json
from hookbus.server import EmbeddedServer
from tests.interceptors.shared_store import CLOCK, ClockFile, allowed, tool_call, tool_result
from tests.worker.asking import Asker, eventually, headers
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LEASE_MS = 30_000
BUDGET = 25


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClockFile]:
    clock = ClockFile(tmp_path_factory.mktemp("clock") / "now")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(CLOCK, str(clock.path))
        yield clock


@pytest.fixture(scope="module")
def fleet(jetstream: EmbeddedServer, clock: ClockFile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Three worker processes that give every session the same budget."""
    path = write(tmp_path_factory.mktemp("fleet"), BUDGET)
    with worker(path, jetstream.url), worker(path, jetstream.url), worker(path, jetstream.url):
        yield


@pytest.fixture
async def bus(jetstream: EmbeddedServer) -> AsyncIterator[hookbus.Connection]:
    async with hookbus.connect(jetstream.url) as connection:
        yield connection


@pytest.fixture
def session() -> str:
    return uuid4().hex


def write(folder: Path, tool_calls: int) -> Path:
    path = folder / "budget.toml"
    limit = f'per = ["session"]\ntool_calls = {tool_calls}\n'
    path.write_text(f"lease_s = {LEASE_MS // 1000}\n[[limits]]\n{limit}")
    return path


def worker(configuration: Path, url: str, tenant: str = "default") -> WorkerProcess:
    target = "tests.interceptors.shared_store:ClockedBudget"
    command = ("--concurrency", "300", "--interceptor-config", str(configuration))
    return WorkerProcess(target, "budget", *command, url=url, tenant=tenant)


async def ask_all(bus: hookbus.Connection, session: str, count: int) -> int:
    """How many of *count* agents, who all ask at once, are admitted."""
    ask = bus.interceptor("budget").intercept
    return allowed(
        await asyncio.gather(*(ask(tool_call(agent=f"agent-{n}", session=session)) for n in range(count)))
    )


@pytest.mark.usefixtures("fleet")
async def test_of_two_hundred_agents_at_once_exactly_as_many_as_the_budget_are_admitted(
    bus: hookbus.Connection, session: str
) -> None:
    assert await ask_all(bus, session, 200) == BUDGET
    assert await ask_all(bus, session, 200) == 0


class DoomedAgents:
    """Twenty agents of a process that leaving kills; what they were given, and what they settled of it."""

    def __init__(self, name: str, url: str, session: str) -> None:
        self._command = [sys.executable, "-m", "tests.interceptors.spending_agents", url, session, name, "20", "3"]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        return self

    def read(self) -> None:
        """Wait until they hang."""
        assert self._process.stdout is not None
        self.admitted, self.settled = (int(word) for word in self._process.stdout.readline().split())

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.usefixtures("fleet")
async def test_what_killed_agents_reserved_is_free_again_at_its_expiry_and_not_before(
    jetstream: EmbeddedServer, bus: hookbus.Connection, session: str, clock: ClockFile
) -> None:
    with ExitStack() as stack:
        doomed = [DoomedAgents(f"doomed-{number}", jetstream.url, session) for number in range(3)]
        for agents in doomed:
            stack.enter_context(agents)
        for agents in doomed:
            await asyncio.to_thread(agents.read)
    assert sum(agents.admitted for agents in doomed) == BUDGET
    settled = sum(agents.settled for agents in doomed)
    clock.move(LEASE_MS - 1)
    assert await ask_all(bus, session, 100) == 0
    clock.move(1)
    assert await ask_all(bus, session, 100) == BUDGET - settled


@pytest.mark.usefixtures("fleet")
async def test_a_settled_call_stays_counted_after_its_lease(
    bus: hookbus.Connection, session: str, clock: ClockFile
) -> None:
    assert await ask_all(bus, session, 3) == 3
    ask = bus.interceptor("budget").intercept
    results = (ask(tool_result(agent=f"agent-{n}", session=session)) for n in range(3))
    assert allowed(await asyncio.gather(*results)) == 3
    clock.move(LEASE_MS)
    assert await ask_all(bus, session, 100) == BUDGET - 3


async def test_a_second_attempt_over_the_wire_counts_once_and_a_restart_forgets_nothing(
    jetstream: EmbeddedServer, clock: ClockFile, tmp_path: Path
) -> None:
    async with Asker(jetstream.url) as asker:
        path = write(tmp_path, 10)

        async def attempts(context: dict[str, Json], id: str, count: int) -> list[str]:
            for _ in range(count):
                asker.send(context, headers(id=id), interceptor="budget", agent="travel")
            return [(await asker.answer()).verdict["decision"] for _ in range(count)]

        with worker(path, jetstream.url, asker.tenant), worker(path, jetstream.url, asker.tenant):
            asked = tool_call()
            for number in range(9):
                asked = tool_call()
                assert await attempts(asked, f"{number:032}", 4) == ["allow"] * 4
        with worker(path, jetstream.url, asker.tenant):
            assert await attempts(asked, f"{8:032}", 1) == ["allow"]
            assert await attempts(tool_call(), f"{9:032}", 1) == ["allow"]
            assert await attempts(tool_call(), f"{10:032}", 1) == ["deny"]


async def test_a_reloaded_limit_holds_for_what_was_counted_before(
    jetstream: EmbeddedServer, clock: ClockFile, tmp_path: Path
) -> None:
    tenant = f"t{uuid4().hex}"
    with worker(write(tmp_path, 5), jetstream.url, tenant):
        async with hookbus.connect(jetstream.url, tenant=tenant) as bus:
            assert await ask_all(bus, "session", 20) == 5
            write(tmp_path, 8)
            admitted = 0

            async def all_three() -> bool:
                nonlocal admitted
                admitted += await ask_all(bus, "session", 1)
                return admitted == 3

            await eventually(all_three)
            assert await ask_all(bus, "session", 20) == 0
