"""A budget whose store fails: every question is denied in its time, and allowed again when the store is back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import hookbus
from hookbus import envelope
from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import AsyncTestClient
from hookbus_interceptors.budget import Budget, BudgetConfiguration
from hookbus_interceptors.budget.account import MAX_ENTRIES, Account, Amounts, Ceiling, Hold, Measure, Refusal
from hookbus_interceptors.store import (
    Contended,
    EntryUnreadable,
    RestartNeeded,
    StoreDown,
    StoreRefused,
    StoreSettings,
    StoreSilent,
    values,
)
from hookbus_interceptors.store.bucket import NOTHING, Bucket
from tests.interceptors.shared_store import NOON_MS, Clock, opened, tool_call
from tests.worker.asking import eventually
from tests.worker.processes import ROOT

pytestmark = pytest.mark.anyio

SETTINGS = StoreSettings(bucket="budget")
LIMITS = ({"per": ["session"], "tool_calls": 3},)


@pytest.fixture
def own_jetstream() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(jetstream=True) as server:
        yield server


def budget(**settings: object) -> Budget:
    return Budget(
        BudgetConfiguration.model_validate({"limits": LIMITS, "store": SETTINGS, **settings}), now_ms=Clock()
    )


def client(interceptor: Budget, timeout_s: float = 5.0) -> AsyncTestClient:
    return AsyncTestClient(interceptor, timeout_s=timeout_s)


@asynccontextmanager
async def bucket(url: str, tenant: str) -> AsyncIterator[Bucket]:
    """The budget's bucket, as one of its workers has it."""
    opened = Bucket(SETTINGS)
    async with opened.opened(hookbus.read_settings(url=url, tenant=tenant)):
        yield opened


async def test_a_store_that_stops_denies_in_time_and_permits_when_it_goes_on(
    own_jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget()
    async with opened(own_jetstream.url, tenant, one):
        assert (await client(one).pre_tool_call("book")).permits
        own_jetstream.pause()
        began_s = time.monotonic()
        answer = await client(one, 2.0).pre_tool_call("book")
        # In between the connection may have found out by itself.
        assert isinstance(answer.error, StoreSilent | StoreDown)
        assert time.monotonic() - began_s < 2.0
        own_jetstream.resume()

        async def permitted() -> bool:
            return (await client(one).ask(tool_call(), question_id="the same")).permits

        await eventually(permitted)


async def test_a_store_that_was_killed_denies_at_once_and_remembers_when_it_is_back(
    own_jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget()
    async with opened(own_jetstream.url, tenant, one):
        for _ in range(2):
            assert (await client(one).pre_tool_call("book")).permits
        own_jetstream.kill()
        answer = await client(one).pre_tool_call("book")
        assert isinstance(answer.error, StoreDown)
        own_jetstream.restart()
        asked = tool_call(session="test-session")

        async def permitted() -> bool:
            return (await client(one).ask(asked, question_id="the same")).permits

        await eventually(permitted)
        # Three of three: the two from before, and the one that was asked again and again.
        assert (await client(one).pre_tool_call("book")).reason == "budget:tool-calls"


async def test_a_deny_because_of_the_store_reserves_nothing_for_long(
    own_jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget()
    async with opened(own_jetstream.url, tenant, one):
        assert (await client(one).pre_tool_call("book", session="another")).permits
        own_jetstream.pause()
        answers = await asyncio.gather(*(client(one, 2.0).pre_tool_call("book") for _ in range(10)))
        assert not any(answer.permits for answer in answers)
        own_jetstream.resume()

        async def permitted() -> bool:
            return (await client(one).ask(tool_call(session="test-session"), question_id="a")).permits

        await eventually(permitted)


async def test_a_server_without_jetstream_is_said_at_the_start(shared_server: EmbeddedServer, tenant: str) -> None:
    with pytest.raises(StoreRefused, match="is JetStream on"):
        async with opened(shared_server.url, tenant, budget()):
            pass


async def test_without_its_lifespan_a_budget_denies(tenant: str) -> None:
    assert isinstance((await client(budget()).pre_tool_call("book")).error, StoreDown)


async def test_an_entry_that_was_purged_or_is_something_else_denies(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget()
    subject = f"$KV.budget.{tenant}.test.session.test-session"
    async with opened(jetstream.url, tenant, one), hookbus.connect(jetstream.url) as bus:
        for body, headers in ((b"", {"KV-Operation": "PURGE"}), (b"", {}), (b"[1]", {}), (b'{"used":[-', {})):
            bus.publish(subject, body, envelope.encode(headers) if headers else b"")
            await bus.flush(timeout_s=5)
            assert isinstance((await client(one).pre_tool_call("book")).error, EntryUnreadable)
        # What an operator does about it.
        bus.publish(subject, b"{}")
        await bus.flush(timeout_s=5)
        assert (await client(one).pre_tool_call("book")).permits


async def test_only_one_of_two_writers_of_a_revision_wins(jetstream: EmbeddedServer, tenant: str) -> None:
    async with bucket(jetstream.url, tenant) as one, bucket(jetstream.url, tenant) as other:
        assert await one.read("key", timeout_s=5) == NOTHING
        won = await asyncio.gather(
            *(side.replace("key", b"{}", revision=0, ttl_s=60, timeout_s=5) for side in (one, other))
        )
        assert sorted(won) == [False, True]
        entry = await other.read("key", timeout_s=5)
        assert entry.value == b"{}"
        assert await one.replace("key", b"{}", revision=entry.revision, ttl_s=60, timeout_s=5)
        assert not await other.replace("key", b"{}", revision=entry.revision, ttl_s=60, timeout_s=5)


async def test_a_worker_that_loses_every_time_gives_up_and_denies(
    jetstream: EmbeddedServer, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(*_: object, **__: object) -> bool:
        return False

    monkeypatch.setattr(Bucket, "replace", lose)
    monkeypatch.setattr(values, "MAX_ATTEMPTS", 5)
    one = budget()
    async with opened(jetstream.url, tenant, one):
        assert isinstance((await client(one).pre_tool_call("book")).error, Contended)


def test_an_account_takes_no_more_reservations_than_an_entry_can_hold() -> None:
    account, ceiling = Account(), Ceiling(tool_calls=10**6)
    for number in range(MAX_ENTRIES + 1):
        hold = Hold((f"{number:08}",), f"{number:024}", Amounts(1, 10**6, 10**12), NOON_MS + 1, NOON_MS + 1)
        refusal, _ = account.reserve(f"{number:024}", hold, ceiling, now_ms=NOON_MS, spend_expired=False)
        assert (refusal is None) is (number < MAX_ENTRIES)
    assert refusal == Refusal(Measure.RESERVATIONS, NOON_MS + 1)
    assert len(msgspec.json.encode(account)) < 600_000
    refusal, _ = account.reserve("next", hold, ceiling, now_ms=NOON_MS + 1, spend_expired=False)
    assert refusal is None
    assert len(account.held) == 1


async def test_a_value_that_the_server_has_forgotten_begins_anew(jetstream: EmbeddedServer, tenant: str) -> None:
    async with bucket(jetstream.url, tenant) as one:
        assert await one.replace("key", b"{}", revision=0, ttl_s=1, timeout_s=5)

        async def forgotten() -> bool:
            return await one.read("key", timeout_s=5) == NOTHING

        await eventually(forgotten)
        assert await one.replace("key", b"{}", revision=0, ttl_s=60, timeout_s=5)


async def test_tenants_never_meet_under_the_same_names(jetstream: EmbeddedServer, tenant: str) -> None:
    one, other = budget(), budget()
    async with opened(jetstream.url, tenant, one), opened(jetstream.url, f"{tenant}-2", other):
        for both in (one, other):
            answers = [await client(both).pre_tool_call("book") for _ in range(4)]
            assert [answer.permits for answer in answers] == [True, True, True, False]


async def test_the_store_may_be_on_another_server(
    own_jetstream: EmbeddedServer, shared_server: EmbeddedServer, tenant: str, tmp_path: Path
) -> None:
    settings = tmp_path / "store.toml"
    settings.write_text(f'url = "{own_jetstream.url}"\n')
    one = budget(store={"bucket": "budget", "settings": settings})
    async with opened(shared_server.url, tenant, one):
        assert (await client(one).pre_tool_call("book")).permits
    async with bucket(own_jetstream.url, tenant) as seen:
        assert (await seen.read("test.session.test-session", timeout_s=5)).value


async def test_a_user_with_the_permissions_of_the_page_is_enough(tenant: str) -> None:
    page = (ROOT / "docs/interceptors/budget.md").read_text("utf-8")
    block = page.split("```text\n")[1].split("```")[0].replace("hookbus-budget", SETTINGS.bucket)
    publish, subscribe = block.split("subscribe")
    permitted = json.dumps({"publish": publish.split()[1:], "subscribe": subscribe.split()[:1]})
    users = f"[{{user: all, password: all}}, {{user: one, password: one, permissions: {permitted}}}]"
    with EmbeddedServer(jetstream=True, config=f"authorization {{ users: {users} }}") as server:
        address = server.url.removeprefix("nats://")
        async with bucket(f"nats://all:all@{address}", tenant):
            pass
        least = budget(store={"bucket": SETTINGS.bucket, "inbox": "_INBOX.budget"})
        async with opened(f"nats://one:one@{address}", tenant, least):
            answers = [await client(least).pre_tool_call("book") for _ in range(4)]
            assert [answer.permits for answer in answers] == [True, True, True, False]


async def test_another_store_needs_a_restart(jetstream: EmbeddedServer, tenant: str) -> None:
    with pytest.raises(RestartNeeded):
        budget(store={"bucket": "elsewhere"}).take_over(budget())
