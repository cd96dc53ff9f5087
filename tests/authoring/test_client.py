"""The test client: what it asks, and that it says of an answer what a host on the bus says of the same answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hookbus_client import BusEmitter
from hookbus_interceptors import Worker, decided_by, question
from hookbus_interceptors.authoring import Interceptor, PreToolCallContext, Verdict, allow, escalate, pre_tool_call
from hookbus_interceptors.authoring.testing import Answer, AsyncTestClient, TestClient
from tests.worker.asking import Asker, context

Context = dict[str, Any]


class Script:
    """Answers with whatever the tool's arguments say."""

    policy_version = "7"

    def intercept(self, context: Context, /) -> object:
        args = context["target"]
        if args.get("raise"):
            raise ValueError("a secret")
        return args.get("answer")


ANSWERS: list[Any] = [
    {"answer": {"decision": "allow"}},
    {"answer": {"decision": "deny", "reason": "r", "message": "m"}},
    {"answer": {"decision": "deny", "approval": {}}},
    {"answer": {"decision": "transform", "transform": {"path": "$target.seat", "value": None}}, "seat": 1},
    {"answer": {"decision": "transform", "transform": {"path": "$target.nowhere", "value": 1}}},
    {"answer": {"decision": "transform", "transform": {"path": "$session", "value": 1}}},
    {"answer": {"decision": "transform", "transform": {"path": "$target..x", "value": 1}}},
    {"answer": {"decision": "transform"}},
    {"answer": {"decision": "allow", "result_labels": ["a", "b"], "warnings": [{"reason": "w"}]}},
    {"answer": {"decision": "warn"}},
    {"answer": {"decision": "deny", "reason": "host_error:none"}},
    {"answer": {}},
    {"answer": None},
    {"answer": "allow"},
    {"raise": True},
]


@pytest.mark.anyio
@pytest.mark.parametrize("args", ANSWERS)
async def test_the_client_and_a_host_on_the_bus_make_the_same_of_an_answer(asker: Asker, args: Any) -> None:
    told = await AsyncTestClient(Script()).pre_tool_call("book", args)
    emitter = BusEmitter(timeout=20.0).register(asker.bus.interceptor("policy"))
    asked = context(args)
    asked["tool_call"]["args"] = args
    async with Worker(asker.bus, Script(), name="policy"):
        record = await emitter.emit_unchecked(asked)
        assert told.permits == record.proceeds
        if told.permits:
            assert told.target == (await emitter.emit(asked)).target
    theirs, ours = record.verdict.to_wire(), told.verdict.to_wire()
    if told.reason is not None and told.reason.startswith("host_error:"):
        # A host on a bus has more to say of it.
        theirs.pop("message", None)
    # A record holds no value of a transform.
    for wire in (theirs, ours):
        wire.get("transform", {}).pop("value", None)
    assert theirs == ours
    assert told.policy_version == "7"


def test_a_question_says_what_the_test_says() -> None:
    seen: list[Any] = []

    def look(context: Context) -> Context:
        seen.append((context, question()))
        return {"decision": "allow"}

    client = TestClient(look)
    client.pre_tool_call(
        "book",
        {"x": 1},
        session="s",
        agent="a",
        tenant="t",
        actor={"id": "u", "kind": "human"},
        budgets={"cost_usd": 1},
        extensions={"redact": {"mode": "hash"}},
        labels={"redact": ["l"], "two-words": ["m"]},
        question_id="the-id",
    )
    client.output("x", session="s", agent="a")
    (first, asked), (second, _) = seen
    assert (first["session"]["id"], first["agent"]["id"], first["tenant"]) == ("s", "a", {"id": "t"})
    assert (first["actor"], first["budgets"]) == ({"id": "u", "kind": "human"}, {"cost_usd": 1})
    assert first["extensions"] == {
        "redact": {"mode": "hash", "source_labels": ["l"]},
        "two_words": {"source_labels": ["m"]},
    }
    assert (asked.id, asked.point, asked.agent) == ("the-id", "pre_tool_call", "a")
    assert 0 < asked.remaining_s <= 5
    # One session counts its questions, and what one question says is not the next one's.
    assert (first["sequence"], second["sequence"]) == (0, 1)
    assert "tenant" not in second
    assert "extensions" not in second


def test_the_interceptor_gets_a_copy_and_the_answer_the_original() -> None:
    def spoil(context: Context) -> Context:
        context["target"].clear()
        return {"decision": "allow"}

    args = {"x": [1]}
    assert TestClient(spoil).pre_tool_call("book", args).target == {"x": [1]}
    assert args == {"x": [1]}


def test_what_is_raised_stands_in_the_answer() -> None:
    answer = TestClient(Script()).pre_tool_call("book", {"raise": True})
    assert isinstance(answer.error, ValueError)
    assert answer.error.__traceback__ is not None
    assert (answer.permits, answer.reason) == (False, "host_error:interceptor_failed")


@pytest.mark.parametrize("in_task", [False, True])
def test_an_interceptor_that_hangs_is_denied_at_its_deadline(in_task: bool) -> None:
    released = asyncio.Event()

    async def hang(_context: Context) -> Context:
        await released.wait()
        return {"decision": "allow"}

    def hang_in_a_task(context: Context) -> Any:
        return hang(context)

    answer = TestClient(hang if in_task else hang_in_a_task, timeout_s=0.05).pre_tool_call("book")
    assert (answer.permits, answer.reason) == (False, "host_error:interceptor_timeout")


def test_the_version_that_decided_stands_in_the_answer() -> None:
    @pre_tool_call
    def choose(context: PreToolCallContext) -> Verdict:
        if context.session.id == "canary":
            decided_by("candidate")
        return escalate("r", parameters={"amount": 1})

    client = TestClient(Interceptor(choose, policy_version="current"))
    answers: list[Answer] = [client.pre_tool_call("book", session=name) for name in ("canary", "another")]
    assert [answer.policy_version for answer in answers] == ["candidate", "current"]
    assert all(answer.escalates and not answer.permits for answer in answers)


@pytest.mark.anyio
async def test_an_interceptor_may_keep_what_belongs_to_the_running_loop() -> None:
    lock = asyncio.Lock()
    entered = asyncio.Event()

    @pre_tool_call
    async def hold(context: PreToolCallContext) -> Verdict:
        entered.set()
        async with lock:
            return allow(labels=[context.tool_call.name])

    client = AsyncTestClient(hold)
    async with asyncio.TaskGroup() as asking:
        async with lock:
            waiting = asking.create_task(_ask(client))
            await entered.wait()
            assert not waiting.done()
    assert waiting.result().labels == ("book",)


async def _ask(client: AsyncTestClient) -> Answer:
    return await client.pre_tool_call("book")
