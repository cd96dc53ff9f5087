"""Which version of a policy an answer names, under a worker: always the one that decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

import hookbus
from hookbus_interceptors import NotAsked, Worker, decided_by
from hookbus_interceptors.authoring import PreToolCallContext, Verdict, allow, deny, pre_tool_call
from hookbus_interceptors.authoring.example import RefuseTools
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured
from tests.worker.asking import Asker

pytestmark = pytest.mark.anyio

Context = dict[str, Any]
ALLOW = {"decision": "allow"}


def write(path: Path, version: str, *tools: str) -> Path:
    path.write_text(f'version = "{version}"\ntools = {json.dumps(tools)}\n', "utf-8")
    return path


class Versioned:
    """Answers by whatever version it is given from outside."""

    policy_version: Any = "first"

    def intercept(self, _context: Context, /) -> Context:
        return ALLOW


async def test_the_interceptors_own_version_wins_over_the_workers_option(asker: Asker) -> None:
    interceptor = Versioned()
    async with Worker(asker.bus, interceptor, name="policy", policy="the option"):
        first = await asker.ask()
        interceptor.policy_version = "second"
        second = await asker.ask()
        interceptor.policy_version = None
        third = await asker.ask()
    assert [answer.headers.get("Hb-Policy") for answer in (first, second, third)] == ["first", "second", None]


async def test_a_class_is_asked_for_the_version_of_its_object(asker: Asker) -> None:
    class Counting(Versioned):
        def __init__(self) -> None:
            self.policy_version = "of the object"

    async with Worker(asker.bus, Counting, name="policy"):
        assert (await asker.ask()).headers["Hb-Policy"] == "of the object"


@pytest.mark.parametrize("wrong", ["two\nlines", " blank", 7, "lone \udc00"])
async def test_a_version_that_no_header_can_hold_is_a_failure(asker: Asker, wrong: object) -> None:
    interceptor = Versioned()
    async with Worker(asker.bus, interceptor, name="policy"):
        interceptor.policy_version = wrong
        answer = await asker.ask()
        assert answer.error == ("500", "ValueError")
        assert answer.body == b""
        interceptor.policy_version = "mended"
        assert (await asker.ask()).verdict == ALLOW


async def test_a_version_that_raises_is_a_failure_and_says_nothing_of_why(asker: Asker) -> None:
    class Raising:
        @property
        def policy_version(self) -> str:
            if broken:
                raise KeyError("a secret")
            return "1"

        def intercept(self, _context: Context, /) -> Context:
            return ALLOW

    broken = False
    client = await nats.connect(asker.url)
    async with Worker(asker.bus, Raising(), name="policy") as worker:
        broken = True
        assert (await asker.ask()).error == ("500", "KeyError")
        seen = json.loads((await client.request(f"$SRV.INFO.policy.{worker.id}", timeout=5)).data)
        assert seen["metadata"]["hb-policy"] == ""
    await client.close()


@pytest.mark.parametrize("in_task", [False, True])
async def test_an_interceptor_may_say_which_version_decided_one_question(asker: Asker, in_task: bool) -> None:
    def choose(context: Context) -> Context:
        if context["session"]["id"] == "canary":
            decided_by("candidate")
        return ALLOW

    async def choose_in_task(context: Context) -> Context:
        return choose(context)

    async with Worker(asker.bus, choose_in_task if in_task else choose, name="policy", policy="current"):
        body = {
            "interception_point": "pre_tool_call",
            "agent": {"id": "traveller"},
            "session": {"id": "canary"},
        }
        candidate = await asker.ask(body)
        current = await asker.ask({**body, "session": {"id": "another"}})
    assert (candidate.headers["Hb-Policy"], current.headers["Hb-Policy"]) == ("candidate", "current")


def test_nobody_decides_outside_of_a_question() -> None:
    with pytest.raises(NotAsked):
        decided_by("7")


async def test_a_reload_changes_the_answers_and_what_they_name(asker: Asker, tmp_path: Path) -> None:
    path = write(tmp_path / "refuse.toml", "1")
    interceptor = RefuseTools.from_config(path)
    client = await nats.connect(asker.url)
    async with Worker(asker.bus, interceptor, name="policy") as worker:
        before = await asker.ask()
        write(path, "2", "book")
        assert interceptor.reload()
        after = await asker.ask()
        seen = json.loads((await client.request(f"$SRV.PING.policy.{worker.id}", timeout=5)).data)
    await client.close()
    assert (before.verdict["decision"], after.verdict["decision"]) == ("allow", "deny")
    assert before.headers["Hb-Policy"].startswith("1+")
    assert after.headers["Hb-Policy"].startswith("2+")
    assert seen["metadata"]["hb-policy"] == after.headers["Hb-Policy"]


class Held(Configured[Configuration]):
    """Answers with its own version once it is let go."""

    entered = asyncio.Event()
    let_go = asyncio.Event()

    @pre_tool_call
    async def judge(self, _context: PreToolCallContext) -> Verdict:
        self.entered.set()
        await self.let_go.wait()
        return deny(self.policy_version or "")


async def test_a_question_ends_with_the_version_that_it_began_with(asker: Asker, tmp_path: Path) -> None:
    Held.entered, Held.let_go = asyncio.Event(), asyncio.Event()
    path = tmp_path / "held.toml"
    path.write_text('version = "1"')
    interceptor = Held.from_config(path)
    async with Worker(asker.bus, interceptor, name="policy"):
        asker.send({"agent": {"id": "traveller"}, "interception_point": "pre_tool_call"})
        await Held.entered.wait()
        path.write_text('version = "2"')
        assert interceptor.reload()
        assert interceptor.policy_version.startswith("2+")
        Held.let_go.set()
        answer = await asker.answer()
    assert answer.headers["Hb-Policy"].startswith("1+")
    assert answer.verdict["reason"] == answer.headers["Hb-Policy"]


async def test_a_lifespan_is_entered_before_the_first_question_and_left_after_the_last(asker: Asker) -> None:
    life: list[object] = []

    class Living:
        @asynccontextmanager
        async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
            life.append(bus)
            yield
            life.append("left")

        def intercept(self, _context: Context, /) -> Context:
            life.append("asked")
            return ALLOW

    async with Worker(asker.bus, Living(), name="policy"):
        await asker.ask()
    assert life == [asker.bus, "asked", "left"]
    with pytest.raises(ZeroDivisionError):
        async with Worker(asker.bus, Living(), name="policy"):
            raise ZeroDivisionError
    assert life[3:] == [asker.bus, "left"]


async def test_a_configured_interceptor_keeps_its_lifespan_over_reloads(asker: Asker, tmp_path: Path) -> None:
    life: list[str] = []

    class Living(Configured[Configuration]):
        connection: object = None

        @asynccontextmanager
        async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
            life.append("entered")
            self.connection = bus
            yield
            life.append("left")

        def take_over(self, previous: Living) -> None:
            self.connection = previous.connection

        @pre_tool_call
        def judge(self, _context: PreToolCallContext) -> Verdict:
            return allow() if self.connection is asker.bus else deny("no connection")

    path = tmp_path / "living.toml"
    path.write_text('version = "1"')
    interceptor = Living.from_config(path)
    async with Worker(asker.bus, interceptor, name="policy"):
        path.write_text('version = "2"')
        assert interceptor.reload()
        answer = await asker.ask()
    assert answer.verdict["decision"] == "allow"
    assert life == ["entered", "left"]


async def test_a_reload_while_the_lifespan_is_entered_takes_over_what_it_holds(
    asker: Asker, tmp_path: Path
) -> None:
    path = tmp_path / "living.toml"
    path.write_text('version = "1"')

    class Living(Configured[Configuration]):
        connection: object = None

        @asynccontextmanager
        async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
            path.write_text('version = "2"')
            assert await asyncio.to_thread(interceptor.reload)
            self.connection = bus
            yield

        def take_over(self, previous: Living) -> None:
            self.connection = previous.connection

        @pre_tool_call
        def judge(self, _context: PreToolCallContext) -> Verdict:
            return allow() if self.connection is asker.bus else deny("no connection")

    interceptor = Living.from_config(path)
    async with Worker(asker.bus, interceptor, name="policy"):
        answer = await asker.ask()
    assert answer.verdict["decision"] == "allow"
    assert answer.headers["Hb-Policy"].startswith("2+")
