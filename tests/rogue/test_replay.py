"""A hostile server: saying again what was said before

Whoever hears a signed question or answer may keep it; only the server can deliver it again: no role publishes
another's subjects. (Contract, C5.2, C5.3 and C5.6.)
"""

from __future__ import annotations

import pytest

from hookbus import envelope
from tests.client.scripted import until
from tests.rogue.hostile import HostileServer
from tests.rogue.matrix import Stop, tried
from tests.rogue.middle import Holding, in_the_middle
from tests.rogue.parties import serving
from tests.rogue.plain import PlainDeployment

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "budget_ms",
    [
        pytest.param(
            None, marks=tried("server", "replays a question to its worker", Stop.REPEAT, shows="`400`, dropped")
        ),
        pytest.param(
            "600000",
            marks=tried(
                "server",
                "the same, with a longer or a shorter budget, which is not signed",
                Stop.REPEAT,
                shows="`400`, dropped",
            ),
        ),
        pytest.param("1", marks=()),
    ],
)
async def test_a_worker_evaluates_a_captured_question_once(plain: PlainDeployment, budget_ms: str | None) -> None:
    async with in_the_middle(plain, "allow") as middle:
        assert await middle.agent.settled(middle.agent.ask()) == "allow"
        (captured,) = middle.to_worker.seen
        again = captured if budget_ms is None else captured.with_headers(Hb_Budget_Ms=budget_ms)
        middle.to_worker.deliver(again, captured)
        await middle.agent.dropped(unasked=2)
        # With a budget of a millisecond it may have expired before it was looked at.
        assert middle.policy.count("400") + middle.policy.count("408") == 2
        assert middle.policy.last_error == "400:Repeated"
        assert middle.policy.policy.asked == 1


@tried(
    "server",
    "replays a question first, before the agent's own arrives",
    Stop.REPEAT,
    shows="one evaluation, one verdict",
)
async def test_a_question_delivered_twice_is_evaluated_once(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = lambda frame: [frame, frame]
        question = middle.agent.ask()
        await middle.agent.dropped(unasked=1)
        assert middle.policy.policy.asked == 1
        assert middle.policy.last_error == "400:Repeated"
        assert middle.agent.give_up(question) in ("allow", "rejected")


@tried(
    "server",
    "replays a question to another worker of the group",
    Stop.SETTLED,
    shows="evaluated once more; its answer dropped",
)
async def test_a_question_replayed_to_another_worker_gets_its_agent_nothing(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle, HostileServer(plain.server.port) as to_second:
        assert await middle.agent.settled(middle.agent.ask()) == "allow"
        (captured,) = middle.to_worker.seen
        async with serving(plain, url=to_second.url) as second:
            to_second.deliver(captured._replace(sid=to_second.sids["hb.v1.default.ctx.policy.*.*"]))
            await middle.agent.dropped(unasked=1)
            assert (middle.policy.policy.asked, second.policy.asked) == (1, 1)


@tried("server", "gives a new question the answer to an earlier one", Stop.ID, shows="dropped, `forged`")
@tried("server", "the same, with the id put right or left out", Stop.SIGNATURE, shows="dropped, `forged`")
async def test_a_captured_answer_is_good_for_no_other_question(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        assert await middle.agent.settled(middle.agent.ask()) == "allow"
        (captured,) = middle.to_agent.seen
        middle.to_worker.tamper = holding = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(holding.held))
        (asked,) = holding.held
        moved = captured._replace(subject=asked.reply)
        middle.to_agent.deliver(
            moved,
            moved.with_headers(Hb_Id=envelope.parse(asked.headers).values[envelope.ID]),
            moved.with_headers(Hb_Id=None),
        )
        await middle.agent.dropped(id=1, signature=2)
        assert middle.agent.give_up(question) == "forged"


@tried("server", "delivers an answer twice", Stop.SETTLED, shows="dropped")
async def test_an_answer_delivered_twice_counts_once(plain: PlainDeployment) -> None:
    async with in_the_middle(plain) as middle:
        middle.to_agent.tamper = lambda frame: [frame, frame]
        question = middle.agent.ask()
        await middle.agent.dropped(unasked=1)
        assert middle.agent.give_up(question) == "deny"


@tried("server", "replays an answer of an earlier connection on a new one", Stop.ANSWER, shows="dropped")
async def test_an_answer_of_an_earlier_connection_finds_nobody(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        assert await middle.agent.settled(middle.agent.ask()) == "allow"
        (captured,) = middle.to_agent.seen
        middle.to_agent.say(b"-ERR 'Stale Connection'\r\n")
        await until(lambda: middle.agent.bus.reconnects == 1)
        middle.to_worker.tamper = Holding()
        question = middle.agent.ask()
        await until(lambda: len(middle.to_worker.seen) == 2)
        sid = next(reversed(middle.to_agent.sids.values()))
        middle.to_agent.deliver(captured._replace(sid=sid))
        await middle.agent.dropped(unasked=1)
        assert middle.agent.give_up(question) == "silent"
