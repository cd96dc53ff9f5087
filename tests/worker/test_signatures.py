"""A worker that trusts: who may ask it, once per id; and its signed answers, to the agent's own check."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus import envelope, subjects
from hookbus.server import EmbeddedServer
from hookbus.signing import Signer
from hookbus_client import BusEmitter
from hookbus_interceptors import Worker
from hookbus_interceptors.intake import Refused, Repeats
from tests.bus.keys import write_seed, write_trust
from tests.client.scripted import until

pytestmark = pytest.mark.anyio


class Keys(NamedTuple):
    """Where the keys of one agent and one worker stand, and the trust file that names them."""

    agent_seed: Path
    worker_seed: Path
    trust: Path
    agent: Signer
    worker: Signer


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    agent, worker = write_seed(tmp_path / "agent.nk"), write_seed(tmp_path / "worker.nk")
    trust = write_trust(tmp_path / "trust.toml", agents={"bot": [agent.key]}, workers={"policy": [worker.key]})
    return Keys(tmp_path / "agent.nk", tmp_path / "worker.nk", trust, agent, worker)


class Counting:
    """Allows everything and counts."""

    def __init__(self, *, repeat_aware: bool = False) -> None:
        self.repeat_aware = repeat_aware
        self.asked = 0

    async def intercept(self, _context: dict[str, Any]) -> dict[str, str]:
        self.asked += 1
        return {"decision": "allow"}


def emitter(bus: hookbus.Connection, **options: Any) -> BusEmitter:
    return BusEmitter(timeout=10.0).register(bus.interceptor("policy", **options))


def said(agent: str = "bot") -> dict[str, Any]:
    return AgentContextBuilder(agent_id=agent, framework="test", session_id="s").input(content="x")


async def test_an_agent_and_a_worker_that_trust_each_other_agree(
    shared_server: EmbeddedServer, keys: Keys
) -> None:
    both = {"tenant": "trusting", "trust": keys.trust}
    async with (
        hookbus.connect(shared_server.url, signing_key=keys.agent_seed, **both) as bus,
        hookbus.connect(shared_server.url, signing_key=keys.worker_seed, **both) as far,
        Worker(far, Counting(), name="policy", policy="v7"),
    ):
        for _ in range(3):
            assert (await emitter(bus).emit_unchecked(said())).proceeds
        assert bus.dropped_answers == {}


@pytest.mark.parametrize("who", ["unsigned", "another's key", "another agent's name"])
async def test_who_may_not_ask_is_rejected_and_nothing_is_evaluated(
    shared_server: EmbeddedServer, keys: Keys, tmp_path: Path, who: str
) -> None:
    settings: dict[str, Any] = {"tenant": "rejecting"}
    if who == "another's key":
        write_seed(tmp_path / "rogue.nk")
        settings["signing_key"] = tmp_path / "rogue.nk"
    elif who == "another agent's name":
        settings["signing_key"] = keys.agent_seed
    counting = Counting()
    async with (
        hookbus.connect(shared_server.url, **settings) as bus,
        hookbus.connect(shared_server.url, tenant="rejecting", trust=keys.trust) as far,
        Worker(far, counting, name="policy"),
    ):
        record = await emitter(bus).emit_unchecked(said("other" if who == "another agent's name" else "bot"))
    assert record.verdict.message == "rejected: a worker of 'policy' refused the question as malformed"
    assert counting.asked == 0


async def test_an_unsigned_worker_is_not_believed(shared_server: EmbeddedServer, keys: Keys) -> None:
    both = {"tenant": "unbelieved"}
    async with (
        hookbus.connect(shared_server.url, trust=keys.trust, **both) as bus,
        hookbus.connect(shared_server.url, **both) as far,
        Worker(far, Counting(), name="policy"),
    ):
        record = await BusEmitter(timeout=0.2).register(bus.interceptor("policy")).emit_unchecked(said())
        assert record.verdict.message is not None
        assert record.verdict.message.startswith("forged: ")
        assert bus.dropped_answers == {"signature": 1}


@pytest.mark.parametrize("repeat_aware", [False, True])
async def test_a_captured_question_is_answered_once_unless_the_interceptor_tells_repeats(
    shared_server: EmbeddedServer, keys: Keys, repeat_aware: bool
) -> None:
    counting, captured, answers = Counting(repeat_aware=repeat_aware), list[hookbus.Message](), list[str]()
    settings: dict[str, Any] = {"tenant": f"replaying-{repeat_aware}".lower()}
    async with (
        hookbus.connect(shared_server.url, signing_key=keys.agent_seed, **settings) as bus,
        hookbus.connect(shared_server.url, trust=keys.trust, signing_key=keys.worker_seed, **settings) as far,
        hookbus.connect(shared_server.url, **settings) as rogue,
        Worker(far, counting, name="policy"),
    ):
        rogue.serve([f"hb.v1.{settings['tenant']}.ctx.>"], "", captured.append, on_refused=print)
        rogue.serve(
            [f"hb.v1.{settings['tenant']}.ans.>"],
            "",
            lambda m: answers.append(envelope.parse(m.headers).values.get(envelope.ERROR, "a verdict")),
            on_refused=print,
        )
        await rogue.flush(timeout_s=5)
        assert (await emitter(bus).emit_unchecked(said())).proceeds
        await until(lambda: len(captured) == 1 and len(answers) == 1)
        message = captured[0]
        rogue.publish(message.subject, message.body, message.headers, message.reply)
        # The budget is not signed: a repeat may name another one and is a repeat all the same.
        longer = envelope.encode({**envelope.parse(message.headers).values, envelope.BUDGET_MS: "600000"})
        rogue.publish(message.subject, message.body, longer, message.reply)
        await until(lambda: len(answers) == 3)
    assert answers == ["a verdict", *["a verdict" if repeat_aware else "Repeated"] * 2]
    assert counting.asked == (3 if repeat_aware else 1)


async def test_a_captured_question_stays_a_repeat_when_its_first_budget_is_over(
    shared_server: EmbeddedServer, keys: Keys
) -> None:
    counting, captured, answers = Counting(), list[hookbus.Message](), list[str]()
    settings: dict[str, Any] = {"tenant": "outliving"}
    async with (
        hookbus.connect(shared_server.url, signing_key=keys.agent_seed, **settings) as bus,
        hookbus.connect(shared_server.url, trust=keys.trust, signing_key=keys.worker_seed, **settings) as far,
        hookbus.connect(shared_server.url, **settings) as rogue,
        Worker(far, counting, name="policy"),
    ):
        rogue.serve(["hb.v1.outliving.ctx.>"], "", captured.append, on_refused=print)
        rogue.serve(["hb.v1.outliving.ans.>"], "", _error_into(answers), on_refused=print)
        await rogue.flush(timeout_s=5)
        assert (await emitter(bus).emit_unchecked(said())).proceeds
        await until(lambda: len(answers) == 1)
        values = envelope.parse(captured[0].headers).values
        for budget_ms in ("1", "9000"):
            headers = envelope.encode({**values, envelope.BUDGET_MS: budget_ms})
            rogue.publish(captured[0].subject, captured[0].body, headers, captured[0].reply)
            await until(lambda: answers[-1] in ("Repeated", "Expired"))
        await until(lambda: len(answers) == 3)
    assert answers[-1] == "Repeated"
    assert counting.asked == 1


def _error_into(answers: list[str]) -> Any:
    return lambda m: answers.append(envelope.parse(m.headers).values.get(envelope.ERROR, "a verdict"))


@pytest.mark.parametrize("change", ["body", "reply", "id", "point"])
async def test_a_question_changed_in_flight_is_rejected(
    shared_server: EmbeddedServer, keys: Keys, change: str
) -> None:
    counting, captured, answers = Counting(), list[hookbus.Message](), list[str]()
    settings: dict[str, Any] = {"tenant": f"changing-{change}"}
    async with (
        hookbus.connect(shared_server.url, signing_key=keys.agent_seed, **settings) as bus,
        hookbus.connect(shared_server.url, **settings) as rogue,
    ):
        # In the middle: nobody else gets the question before it was changed.
        rogue.serve(
            [subjects.questions(settings["tenant"], "policy")], "policy", captured.append, on_refused=print
        )
        await rogue.flush(timeout_s=5)
        sent = said()
        running = await BusEmitter(timeout=0.05).register(bus.interceptor("policy")).emit_unchecked(sent)
        assert not running.proceeds
        await until(lambda: bool(captured))
        message = captured[0]
        subject, body, headers, reply = message.subject, message.body, message.headers, message.reply
        if change == "body":
            body = body.replace(b'"x"', b'"y"')
        elif change == "reply":
            reply = reply[:-1] + "9"
        elif change == "id":
            values = envelope.parse(headers).values
            headers = envelope.encode({**values, envelope.ID: "0" * 32, envelope.BUDGET_MS: "5000"})
        else:
            subject = subject.replace(".input.", ".output.")
        async with hookbus.connect(shared_server.url, trust=keys.trust, **settings) as far:
            await rogue._servings[0].drain(timeout_s=5)
            rogue.serve(
                [f"hb.v1.{settings['tenant']}.ans.>"],
                "",
                lambda m: answers.append(envelope.parse(m.headers).values[envelope.ERROR]),
                on_refused=print,
            )
            async with Worker(far, counting, name="policy", skew_allowance_s=60):
                values = envelope.parse(headers).values
                headers = envelope.encode({**values, envelope.BUDGET_MS: "5000"})
                rogue.publish(subject, body, headers, reply)
                await until(lambda: len(answers) == 1)
    assert answers == ["SignatureInvalid"]
    assert counting.asked == 0


async def test_a_second_attempt_reaches_the_worker_it_is_directed_to(shared_server: EmbeddedServer) -> None:
    counting = Counting()
    async with (
        hookbus.connect(shared_server.url, tenant="directed") as bus,
        hookbus.connect(shared_server.url, tenant="directed") as far,
        Worker(far, counting, name="policy") as worker,
    ):
        answers: list[hookbus.Message] = []
        bus.serve(["hb.v1.directed.ans.policy.bot.c0ffee.1"], "", answers.append, on_refused=print)
        directed = subjects.directed("directed", "policy", "input", "bot", worker.id)
        bus.publish(directed, hookbus.codec.encode(said(), hookbus.codec.survey(said())), b"", answers_to())
        await until(lambda: len(answers) == 1)
        assert answers[0].body == b'{"decision":"allow"}'
        assert envelope.parse(answers[0].headers).values[envelope.WORKER] == worker.id
    assert counting.asked == 1


def answers_to() -> str:
    return subjects.answer("directed", "policy", "bot", "c0ffee", 1)


def test_an_id_is_taken_once_until_it_expires_and_each_agents_memory_is_bounded() -> None:
    repeats = Repeats(most=2)
    repeats.check("bot", "one", expires_s=10.0, now_s=0.0)
    with pytest.raises(Refused, match="Repeated"):
        repeats.check("bot", "one", expires_s=10.0, now_s=9.9)
    repeats.check("bot", "one", expires_s=20.0, now_s=10.0)
    repeats.check("bot", "two", expires_s=15.0, now_s=10.0)
    with pytest.raises(Refused, match="429"):
        repeats.check("bot", "three", expires_s=20.0, now_s=10.0)
    # Neither another agent's ids nor its room are touched.
    for number in ("one", "two"):
        repeats.check("other", number, expires_s=20.0, now_s=10.0)
    repeats.check("bot", "three", expires_s=30.0, now_s=15.0)
    with pytest.raises(Refused, match="Repeated"):
        repeats.check("bot", "one", expires_s=20.0, now_s=15.0)
