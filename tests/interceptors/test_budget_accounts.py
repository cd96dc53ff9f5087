"""The budget's arithmetic, over a real JetStream server: limits, windows, second attempts, settlements."""

from __future__ import annotations

import asyncio
import tomllib
from decimal import Decimal
from typing import Any

import pytest

from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import AsyncTestClient
from hookbus_interceptors.budget import Budget, BudgetConfiguration
from hookbus_interceptors.fleet.plan import FleetPlan
from tests.interceptors.shared_store import DAY_MS, NOON_MS, Clock, opened, tool_call, tool_result
from tests.worker.processes import ROOT

pytestmark = pytest.mark.anyio


def budget(clock: Clock, *limits: dict[str, Any], **settings: Any) -> Budget:
    return Budget(BudgetConfiguration(limits=limits, **settings), now_ms=clock)


async def called(client: AsyncTestClient, call: str, **envelope: Any) -> bool:
    """Whether a tool call, before and after, was let through."""
    before = await client.pre_tool_call("book", call_id=call, **envelope)
    if before.permits:
        assert (await client.post_tool_call("book", call_id=call, **envelope)).permits
    return before.permits


async def test_each_session_has_its_own_calls(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["session"], "tool_calls": 2})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert [await called(client, f"c{n}", session="a") for n in range(4)] == [True, True, False, False]
        assert [await called(client, f"c{n}", session="b") for n in range(3)] == [True, True, False]


async def test_a_deny_names_the_limit_and_when_it_resets(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["actor"], "window": "day", "tool_calls": 1})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert await called(client, "c1", actor={"id": "ann"})
        refused = await client.pre_tool_call("book", actor={"id": "ann"})
        assert refused.reason == "budget:tool-calls"
        assert refused.message == (
            "The limit of 1 tool calls for each actor and day (UTC) leaves no room. "
            "It resets at 2026-12-01T00:00:00Z."
        )


async def test_a_deny_for_calls_in_progress_says_until_when_they_hold_it(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget(Clock(), {"per": ["session"], "tool_calls": 1}, lease_s=60)
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.pre_tool_call("book")).permits
        refused = await client.pre_tool_call("book")
        assert refused.message is not None
        assert refused.message.endswith("the first until 2026-11-30T12:01:00Z.")


async def test_an_agent_that_names_no_actor_has_no_budget_of_an_actor(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget(Clock(), {"per": ["actor"], "tool_calls": 1})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.pre_tool_call("book")).reason == "budget:actor-unknown"
        assert (await client.post_tool_call("book")).reason == "budget:actor-unknown"


async def test_the_budget_of_a_day_begins_anew_at_midnight_and_no_sooner(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    one = budget(clock, {"per": ["tenant"], "window": "day", "tool_calls": 1})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert await called(client, "c1")
        midnight_ms = NOON_MS + DAY_MS // 2
        clock.now_ms = midnight_ms - 1
        assert not await called(client, "c2")
        clock.now_ms = midnight_ms
        assert await called(client, "c3")
        assert not await called(client, "c4")


async def test_a_call_over_midnight_counts_on_the_day_on_which_it_began(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock(NOON_MS + DAY_MS // 2 - 1)
    one = budget(clock, {"per": ["tenant"], "window": "day", "tool_calls": 1})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.ask(tool_call(call="late"))).permits
        clock.now_ms += 2
        result = tool_result(call="late")
        for _ in range(2):  # the second is a second attempt
            assert (await client.ask(result, question_id="after")).permits
        assert await called(client, "next day")
        clock.now_ms -= 2
        assert not await called(client, "the day before")


async def test_a_limit_of_elapsed_time_counts_from_the_first_question(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    one = budget(clock, {"per": ["session"], "elapsed_s": 60})
    async with opened(jetstream.url, tenant, one) as [client]:
        assert await called(client, "c1")
        clock.now_ms += 59_999
        assert (await client.pre_model_call([{"role": "user", "content": "hi"}])).permits
        clock.now_ms += 1
        assert (await client.pre_model_call([{"role": "user", "content": "hi"}])).reason == "budget:elapsed"
        assert (await client.pre_tool_call("book")).reason == "budget:elapsed"
        assert await called(client, "c2", session="another")


async def test_what_a_model_call_really_took_replaces_what_was_reserved(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    one = budget(Clock(), {"per": ["session"], "tokens": 1000}, output_tokens=500)
    async with opened(jetstream.url, tenant, one) as [client]:
        for _ in range(2):
            # Two at once would be more than 1000.
            assert (await client.pre_model_call([])).permits
            assert (await client.pre_model_call([])).reason == "budget:tokens"
            usage = {"prompt_tokens": 100, "completion_tokens": 100}
            assert (await client.post_model_call("hi", usage=usage)).permits
        assert (await client.pre_model_call([])).permits
        # The agent does not say: what was reserved counts.
        assert (await client.post_model_call("hi")).permits
        assert (await client.pre_model_call([])).reason == "budget:tokens"


async def test_negative_usage_is_no_gift(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["session"], "tokens": 1000}, output_tokens=900)
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.pre_model_call([])).permits
        usage = {"prompt_tokens": -(10**6), "completion_tokens": 0}
        assert (await client.post_model_call("hi", usage=usage)).permits
        assert not (await client.pre_model_call([])).permits


async def test_a_longer_prompt_reserves_more(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["session"], "tokens": 1000}, output_tokens=0, bytes_per_token=1)
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.pre_model_call([{"role": "user", "content": "x" * 1000}])).reason == "budget:tokens"
        assert (await client.pre_model_call([{"role": "user", "content": "x" * 800}])).permits


async def test_costs_are_exact_by_the_price_of_each_model(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(
        Clock(),
        {"per": ["tenant"], "cost_usd": "0.30"},
        prices={"small": {"input": "1", "output": "2"}},
        output_tokens=0,
        bytes_per_token=1000,
    )
    async with opened(jetstream.url, tenant, one) as [client]:
        # 0.1 USD each, three times: not 0.30000000000000004.
        for _ in range(3):
            assert (await client.pre_model_call([], model="small")).permits
            usage = {"prompt_tokens": 50_000, "completion_tokens": 25_000 - 1}
            assert (await client.post_model_call("hi", model="small", usage=usage)).permits
        assert (await client.pre_model_call([], model="small")).permits
        usage = {"prompt_tokens": 6, "completion_tokens": 0}
        assert (await client.post_model_call("hi", model="small", usage=usage)).permits
        refused = await client.pre_model_call([], model="small")
        assert refused.reason == "budget:cost"
        assert refused.message is not None
        assert "0.30 USD" in refused.message


async def test_a_model_without_a_price_is_refused_where_costs_are_limited(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    limit = {"per": ["tenant"], "cost_usd": Decimal(1)}
    known = {"small": {"input": 1, "output": 1}}
    one, any_model = budget(Clock(), limit, prices=known), budget(Clock(), limit, prices={"*": known["small"]})
    async with opened(jetstream.url, tenant, one, any_model) as [client, generous]:
        assert (await client.pre_model_call([], model="large")).reason == "budget:price-unknown"
        assert (await generous.pre_model_call([], model="large")).permits


async def test_a_second_attempt_counts_once_whichever_worker_takes_it(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    workers = [budget(clock, {"per": ["session"], "tool_calls": 10}) for _ in range(3)]
    async with opened(jetstream.url, tenant, *workers) as clients:
        for number in range(9):
            asked = tool_call(call=f"c{number}")
            attempts = [client.ask(asked, question_id=f"q{number}") for client in clients]
            assert all(answer.permits for answer in await asyncio.gather(*attempts))
            if number % 2:
                assert (await clients[0].ask(tool_result(call=f"c{number}"))).permits
                # The slowest attempt of all comes when its call is over.
                assert (await clients[1].ask(asked, question_id=f"q{number}")).permits
        last = [client.ask(tool_call(), question_id=f"last{n}") for n, client in enumerate(clients)]
        assert sum(answer.permits for answer in await asyncio.gather(*last)) == 1


async def test_another_question_under_the_same_id_counts(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["session"], "tool_calls": 2})
    async with opened(jetstream.url, tenant, one) as [client]:
        answers = [await client.pre_tool_call("book", question_id="always the same") for _ in range(3)]
        assert [answer.permits for answer in answers] == [True, True, False]


async def test_a_refused_attempt_gives_back_nothing_that_another_attempt_holds(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    calls = {"per": ["session"], "tool_calls": 1}
    strict, lenient = budget(clock, calls, {"per": ["agent"], "tool_calls": 0}), budget(clock, calls)
    async with opened(jetstream.url, tenant, strict, lenient) as [refusing, granting]:
        asked = tool_call()
        assert (await granting.ask(asked, question_id="q")).permits
        assert not (await refusing.ask(asked, question_id="q")).permits
        assert not (await granting.ask(tool_call(), question_id="another")).permits


async def test_what_a_later_limit_refuses_is_given_back_to_the_earlier_ones(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    one = budget(
        clock,
        {"per": ["tenant"], "window": "day", "tool_calls": 2},
        {"per": ["session"], "tool_calls": 3},
    )
    async with opened(jetstream.url, tenant, one) as [client]:
        answers = await asyncio.gather(*(client.pre_tool_call("book", session="s") for _ in range(50)))
        assert sum(answer.permits for answer in answers) == 2
        clock.now_ms += DAY_MS
        # Two expired, the others were given back.
        answers = [await client.pre_tool_call("book", session="s") for _ in range(4)]
        assert [answer.permits for answer in answers] == [True, True, False, False]


async def test_an_expired_reservation_is_returned_or_spent_as_the_configuration_says(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    for unsettled, again in (("returned", True), ("spent", False)):
        clock = Clock()
        one = budget(clock, {"per": ["actor"], "tool_calls": 1}, lease_s=60, unsettled=unsettled)
        async with opened(jetstream.url, tenant, one) as [client]:
            actor = {"id": unsettled}
            assert (await client.pre_tool_call("book", call_id="lost", actor=actor)).permits
            clock.now_ms += 59_999
            assert not (await client.pre_tool_call("book", actor=actor)).permits
            clock.now_ms += 1
            assert (await client.pre_tool_call("book", call_id="next", actor=actor)).permits is again


async def test_a_call_that_outlives_its_lease_is_counted_when_it_ends(
    jetstream: EmbeddedServer, tenant: str
) -> None:
    clock = Clock()
    one = budget(clock, {"per": ["session"], "tool_calls": 3}, lease_s=60)
    async with opened(jetstream.url, tenant, one) as [client]:
        assert (await client.ask(tool_call(call="slow"))).permits
        clock.now_ms += 60_000
        assert await called(client, "quick", session="session")
        result = tool_result(call="slow")
        for _ in range(2):  # the second is a second attempt
            assert (await client.ask(result, question_id="after")).permits
        assert [await called(client, f"c{n}", session="session") for n in range(2)] == [True, False]


async def test_calls_with_the_same_id_are_still_so_many_calls(jetstream: EmbeddedServer, tenant: str) -> None:
    one = budget(Clock(), {"per": ["session"], "tool_calls": 3})
    async with opened(jetstream.url, tenant, one) as [client]:
        answers = [await client.pre_tool_call("book", call_id="same") for _ in range(4)]
        assert [answer.permits for answer in answers] == [True, True, True, False]
        for _ in range(3):
            assert (await client.post_tool_call("book", call_id="same")).permits
        assert not await called(client, "same")


@pytest.mark.parametrize(
    "wrong",
    [
        {"limits": []},
        {"limits": [{"per": ["session"]}]},
        {"limits": [{"per": [], "tool_calls": 1}]},
        {"limits": [{"per": ["session", "session"], "tool_calls": 1}]},
        {"limits": [{"per": ["session"], "tool_calls": -1}]},
        {"limits": [{"per": ["session"], "cost_usd": float("nan")}]},
        {"limits": [{"per": ["session"], "tool_calls": 1}, {"per": ["session"], "tokens": 1}]},
        {"limits": [{"per": ["session"], "tool_calls": 1}], "lease_s": 0},
    ],
)
def test_a_configuration_that_limits_nothing_or_twice_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        BudgetConfiguration.model_validate(wrong)


@pytest.mark.parametrize("where", ["docs/interceptors/budget.md", "deploy/fleet.toml"])
def test_the_configurations_shown_and_shipped_are_some(where: str) -> None:
    text = (ROOT / where).read_text("utf-8")
    fleet = tomllib.loads(text.split("```toml\n")[1].split("```")[0] if where.endswith(".md") else text)
    plan = FleetPlan.model_validate(fleet)
    assert plan.server.jetstream
    assert plan.interceptors["budget"].target == "hookbus_interceptors.budget:Budget"
    BudgetConfiguration.model_validate(plan.interceptors["budget"].configuration)
