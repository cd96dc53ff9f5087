"""Rate limits over a real JetStream server: sliding windows, keys, several rules, several workers."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyrate_limiter import Rate

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import AsyncTestClient
from hookbus_interceptors.fleet.plan import FleetPlan
from hookbus_interceptors.rate_limit import RateLimit, RateLimitConfiguration, Taken, Window
from hookbus_interceptors.store import StoreDown, StoreSilent
from tests.interceptors.shared_store import CLOCK, Clock, ClockFile, allowed, opened, tool_call
from tests.worker.asking import eventually
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = pytest.mark.anyio


def rule(calls: int = 2, within_s: float = 10, **more: Any) -> dict[str, Any]:
    return {"name": "rule", "rates": [{"calls": calls, "within_s": within_s}], "key": ["session"], **more}


def limit(clock: Clock, *rules: dict[str, Any]) -> RateLimit:
    return RateLimit(RateLimitConfiguration.model_validate({"rules": rules}), now_ms=clock)


async def permitted(client: AsyncTestClient, count: int, tool: str = "book", **envelope: Any) -> int:
    """How many of *count* calls, one after the other, are let through."""
    answers = [await client.pre_tool_call(tool, **envelope) for _ in range(count)]
    assert all(answer.error is None for answer in answers)
    return sum(answer.permits for answer in answers)


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 5), st.integers(1, 30))
def test_no_stretch_of_a_rate_ever_holds_more_calls_and_none_is_refused_in_vain(
    pauses_ms: list[int], calls: int, interval_ms: int
) -> None:
    window, now_ms, admitted = Window(), 0, list[int]()
    for number, pause_ms in enumerate(pauses_ms):
        now_ms += pause_ms
        refused, _ = window.take(Taken(now_ms, str(number), "attempt"), [Rate(calls, interval_ms)])
        room = sum(now_ms - interval_ms <= at_ms for at_ms in admitted) < calls
        assert (refused is None) is room
        if refused is None:
            admitted.append(now_ms)
        else:
            assert refused.retry_after_ms is not None
            assert 0 < refused.retry_after_ms <= interval_ms + 1


async def test_the_window_slides_to_the_millisecond(jetstream: EmbeddedServer, tenant: str) -> None:
    clock = Clock()
    async with opened(jetstream.url, tenant, limit(clock, rule(calls=2, within_s=10))) as [client]:
        assert await permitted(client, 1) == 1
        clock.now_ms += 4_000
        assert await permitted(client, 2) == 1
        clock.now_ms += 6_000
        assert await permitted(client, 1) == 0
        clock.now_ms += 1
        assert await permitted(client, 2) == 1
        clock.now_ms += 4_000
        assert await permitted(client, 2) == 1


async def test_a_deny_says_which_rate_and_when_there_is_room_again(jetstream: EmbeddedServer, tenant: str) -> None:
    clock = Clock()
    async with opened(jetstream.url, tenant, limit(clock, rule(calls=1, within_s=2.5))) as [client]:
        assert await permitted(client, 1) == 1
        clock.now_ms += 500
        refused = await client.pre_tool_call("book")
        assert refused.reason == "rate-limit:rule"
        assert refused.message == (
            "At most 1 in 2.5 s for each session. There is room again at 2026-11-30T12:00:02.501Z."
        )


async def test_all_rates_of_a_rule_hold(jetstream: EmbeddedServer, tenant: str) -> None:
    clock = Clock()
    rates = [{"calls": 3, "within_s": 60}, {"calls": 2, "within_s": 1}]
    async with opened(jetstream.url, tenant, limit(clock, rule(rates=rates))) as [client]:
        assert await permitted(client, 5) == 2
        clock.now_ms += 1_001
        assert await permitted(client, 5) == 1
        clock.now_ms += 1_001
        assert await permitted(client, 5) == 0


async def test_what_one_rule_refuses_counts_under_no_other(jetstream: EmbeddedServer, tenant: str) -> None:
    clock = Clock()
    rules = (
        rule(name="wide", calls=3, within_s=60, key=["tenant"]),
        rule(name="narrow", calls=1, within_s=60, key=["session"]),
    )
    async with opened(jetstream.url, tenant, limit(clock, *rules)) as [client]:
        assert await permitted(client, 10, session="a") == 1
        assert await permitted(client, 10, session="b") == 1
        assert await permitted(client, 10, session="c") == 1
        assert await permitted(client, 10, session="d") == 0


async def test_each_combination_of_the_key_has_its_own_window(jetstream: EmbeddedServer, tenant: str) -> None:
    every = ["tenant", "agent", "actor", "session", "tool", "args.to.mail"]
    ann, bob = {"id": "ann"}, {"id": "bob"}
    asked: list[dict[str, Any]] = [
        {"args": {"to": {"mail": "x@example.org"}}, "actor": ann},
        {"args": {"to": {"mail": "y@example.org"}}, "actor": ann},
        {"args": {"to": {"mail": ["x@example.org"]}}, "actor": ann},
        {"args": {"to": "x@example.org"}, "actor": ann},
        {"args": {"to": {"mail": "x@example.org"}}, "actor": bob},
        {"args": {"to": {"mail": "x@example.org"}}, "actor": ann, "session": "other"},
        {"args": {"to": {"mail": "x@example.org"}}, "actor": ann, "agent": "other"},
        {"args": {"to": {"mail": "x@example.org"}}, "actor": ann, "tool": "other"},
    ]
    async with opened(jetstream.url, tenant, limit(Clock(), rule(calls=1, key=every))) as [client]:
        for one in asked:
            assert await permitted(client, 2, **one) == 1


async def test_another_spelling_opens_no_other_window(jetstream: EmbeddedServer, tenant: str) -> None:
    one = limit(Clock(), rule(calls=1, key=["tool", "args.to"]))
    async with opened(jetstream.url, tenant, one) as [client]:
        assert await permitted(client, 1, tool="Send", args={"to": "Ann@example.org"}) == 1
        assert await permitted(client, 1, tool="send", args={"to": " ann@EXAMPLE.org "}) == 0
        # Calls that leave the argument out are counted together.
        assert await permitted(client, 1, tool="send", args={}) == 1
        assert await permitted(client, 1, tool="send", args={"too": 1}) == 0


async def test_only_the_tools_that_a_rule_names_are_counted(jetstream: EmbeddedServer, tenant: str) -> None:
    async with opened(jetstream.url, tenant, limit(Clock(), rule(calls=2, tools=["send_*"]))) as [client]:
        assert await permitted(client, 3, tool="read") == 3
        assert await permitted(client, 1, tool="send_mail") == 1
        assert await permitted(client, 1, tool="mcp__mail__SEND_mail") == 1
        assert await permitted(client, 1, tool="send_money") == 0


async def test_models_and_inputs_have_rules_of_their_own(jetstream: EmbeddedServer, tenant: str) -> None:
    rules = rule(name="model", calls=1, at="pre_model_call"), rule(name="input", calls=1, at="input")
    async with opened(jetstream.url, tenant, limit(Clock(), *rules)) as [client]:
        assert await permitted(client, 3) == 3
        assert [(await client.pre_model_call([])).permits for _ in range(2)] == [True, False]
        assert [(await client.input("hi")).permits for _ in range(2)] == [True, False]


async def test_an_agent_that_names_no_actor_has_no_rate_of_an_actor(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    async with opened(jetstream.url, tenant, limit(Clock(), rule(key=["actor"]))) as [client]:
        assert (await client.pre_tool_call("book")).reason == "rate-limit:actor-unknown"


async def test_a_second_attempt_takes_no_second_place_whichever_worker_takes_it(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    workers = [limit(clock, rule(calls=5)) for _ in range(3)]
    async with opened(jetstream.url, tenant, *workers) as clients:
        for number in range(4):
            asked = tool_call()
            attempts = [client.ask(asked, question_id=f"q{number}") for client in clients]
            assert all(answer.permits for answer in await asyncio.gather(*attempts))
        answers = [await clients[0].ask(tool_call(), question_id="always the same") for _ in range(3)]
        assert [answer.permits for answer in answers] == [True, False, False]


async def test_a_worker_whose_clock_is_behind_finds_no_room_that_is_taken(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    ahead, behind = Clock(), Clock()
    behind.now_ms -= 3_000
    workers = limit(ahead, rule(calls=2)), limit(behind, rule(calls=2))
    async with opened(jetstream.url, tenant, *workers) as [first, second]:
        assert await permitted(first, 1) == 1
        assert await permitted(second, 2) == 1
        assert await permitted(first, 1) == 0


@pytest.mark.slow
async def test_of_two_hundred_at_once_exactly_as_many_as_the_rate_are_admitted_over_all_workers(
    jetstream: EmbeddedServer, tenant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ClockFile(tmp_path / "now")
    monkeypatch.setenv(CLOCK, str(clock.path))
    path = tmp_path / "rate-limit.toml"
    path.write_text(
        '[[rules]]\nname = "tenant"\nkey = ["tenant"]\nrates = [{ calls = 30, within_s = 60 }]\n'
        '[[rules]]\nname = "agent"\nkey = ["agent"]\nrates = [{ calls = 1, within_s = 1 }]\n'
    )

    def worker() -> WorkerProcess:
        target = "tests.interceptors.shared_store:ClockedRateLimit"
        command = ("--concurrency", "300", "--interceptor-config", str(path))
        return WorkerProcess(target, "rate-limit", *command, url=jetstream.url, tenant=tenant)

    async def ask_all() -> int:
        asked = (ask(tool_call(agent=f"agent-{number}")) for number in range(200))
        return allowed(await asyncio.gather(*asked))

    with worker(), worker(), worker():
        async with hookbus.connect(jetstream.url, tenant=tenant) as bus:
            ask = bus.interceptor("rate-limit").intercept
            assert await ask_all() == 30
            clock.move(60_000)
            assert await ask_all() == 0
            clock.move(1)
            assert await ask_all() == 30


async def test_a_store_that_is_gone_denies_and_its_windows_are_there_when_it_is_back(tenant: str) -> None:
    with EmbeddedServer(jetstream=True) as server:
        one = limit(Clock(), rule(calls=2))
        async with opened(server.url, tenant, one) as [client]:
            assert await permitted(client, 1) == 1
            server.kill()
            assert isinstance((await client.pre_tool_call("book")).error, StoreDown)
            server.restart()
            asked = tool_call(session="test-session")

            async def back() -> bool:
                return (await client.ask(asked, question_id="the same")).permits

            await eventually(back)
            assert await permitted(client, 1) == 0
            server.pause()
            stopped = AsyncTestClient(one, timeout_s=2.0)
            answer = await stopped.pre_tool_call("book")
            assert not answer.permits
            assert isinstance(answer.error, StoreDown | StoreSilent | TimeoutError)


async def test_a_reloaded_rule_counts_what_came_before(
    jetstream: EmbeddedServer, tenant: str, tmp_path: Path
) -> None:
    def write(calls: int) -> Path:
        path = tmp_path / "rate-limit.toml"
        rates = f"rates = [{{ calls = {calls}, within_s = 3600 }}]"
        path.write_text(f'[[rules]]\nname = "rule"\nkey = ["session"]\n{rates}\n')
        return path

    reloading = RateLimit.from_config(write(2))
    async with opened(jetstream.url, tenant, reloading) as [client]:
        assert await permitted(client, 3) == 2
        write(3)
        reloading.reload()
        assert await permitted(client, 3) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [rule(), rule()],
        [rule(rates=[])],
        [rule(calls=0)],
        [rule(calls=5_001)],
        [rule(within_s=0)],
        [rule(key=[])],
        [rule(key=["anything"])],
        [rule(key=["tool"], at="input")],
        [rule(tools=["send"], at="pre_model_call")],
        # The longer stretch permits less than the shorter one: the shorter never holds.
        [rule(rates=[{"calls": 5, "within_s": 1}, {"calls": 4, "within_s": 60}])],
    ],
)
def test_rules_that_cannot_be_meant_are_refused(wrong: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RateLimitConfiguration.model_validate({"rules": wrong})


@pytest.mark.parametrize("where", ["docs/interceptors/rate-limit.md", "deploy/fleet.toml"])
def test_the_rules_shown_and_shipped_are_some(where: str) -> None:
    text = (ROOT / where).read_text("utf-8")
    fleet = tomllib.loads(text.split("```toml\n")[1].split("```")[0] if where.endswith(".md") else text)
    plan = FleetPlan.model_validate(fleet)
    assert plan.server.jetstream
    assert plan.interceptors["rate-limit"].target == "hookbus_interceptors.rate_limit:RateLimit"
    RateLimitConfiguration.model_validate(plan.interceptors["rate-limit"].configuration)
