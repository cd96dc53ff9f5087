"""Every kind of interceptor answers, in its own way and in nobody else's."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import Any

import nats
import pytest
from agent_hooks import InterceptorResponse, Verdict

import hookbus
import hookbus_interceptors
from hookbus_interceptors import NotAnInterceptor, NotAsked, Worker
from tests.worker import interceptors
from tests.worker.asking import AGENT, Asker, context, headers
from tests.worker.interceptors import Wire

pytestmark = pytest.mark.anyio

ALLOW = {"decision": "allow"}


async def test_whatever_can_be_asked_answers_unchanged(asker: Asker) -> None:
    class InThread:
        def intercept(self, _context: dict[str, Any], /) -> dict[str, str]:
            return dict(ALLOW)

    class Callable:
        async def __call__(self, _context: dict[str, Any]) -> dict[str, str]:
            return dict(ALLOW)

    async def in_task(_context: dict[str, Any]) -> Verdict:
        return Verdict.allow()

    every = [
        interceptors.allow,
        interceptors.AllowInTask,
        interceptors.AllowInTask(),
        InThread,
        InThread(),
        Callable(),
        in_task,
        lambda context: in_task(context),
        lambda context: Wire(dict(ALLOW)),
        lambda context: InterceptorResponse(Verdict.allow()),
    ]
    for interceptor in every:
        async with Worker(asker.bus, interceptor, name="policy"):
            assert (await asker.ask()).verdict == ALLOW, interceptor


async def test_an_interceptor_sees_the_context_that_was_sent(asker: Asker) -> None:
    seen = []
    sent = context({"seat": "first", "n": [1, 2.5, None, True, "é"]})
    async with Worker(asker.bus, lambda context: seen.append(context) or dict(ALLOW), name="policy"):
        await asker.ask(sent)
    assert seen == [sent]


async def test_a_sync_interceptor_runs_in_a_thread_and_a_coroutine_on_the_loop(asker: Asker) -> None:
    threads = []

    def sync(_context: dict[str, Any]) -> dict[str, str]:
        threads.append(threading.current_thread())
        return dict(ALLOW)

    async def coroutine(_context: dict[str, Any]) -> dict[str, str]:
        return sync(_context)

    for interceptor in (sync, coroutine):
        async with Worker(asker.bus, interceptor, name="policy"):
            await asker.ask()
            await asker.ask()
    # The second question found the first one's thread idle.
    assert threads[0] is threads[1] is not threading.main_thread()
    assert threads[2] is threads[3] is threading.main_thread()


async def test_an_answer_says_who_gave_it_and_to_what(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy", policy="v7 ünïcode") as worker:
        answer = await asker.ask(None, headers(id="the-id"))
        other = await asker.ask(None, headers(id="another"))
    elapsed = answer.headers.pop("Hb-Elapsed-Us")
    assert answer.headers == {
        "Hb-Id": "the-id",
        "Hb-Interceptor": "policy",
        "Hb-Worker": worker.id,
        "Hb-Policy": "v7 ünïcode",
    }
    assert 0 <= int(elapsed) < 5_000_000
    assert other.headers["Hb-Id"] == "another"


async def test_a_name_that_is_no_token_is_served_under_its_token(asker: Asker) -> None:
    name = "Travel Policy/2"
    async with Worker(asker.bus, interceptors.Deny, name=name):
        verdict = await asker.bus.interceptor(name).intercept(context())
    assert verdict["decision"] == "deny"


async def test_a_plain_nats_request_is_answered(asker: Asker) -> None:
    prefix = f"hb.v1.{asker.tenant}.ans.policy.{AGENT}"
    async with Worker(asker.bus, interceptors.Deny, name="policy"):
        plain = await nats.connect(asker.url, inbox_prefix=prefix)
        body = b'{"agent":{"id":"traveller"},"interception_point":"input"}'
        answer = await plain.request(f"hb.v1.{asker.tenant}.ctx.policy.input.{AGENT}", body, timeout=5)
        await plain.close()
    assert answer.data == b'{"decision":"deny","reason":"because","message":"input"}'
    assert answer.headers["Hb-Interceptor"] == "policy"
    assert "Hb-Id" not in answer.headers


@pytest.mark.parametrize("wrap", [lambda sync: sync, lambda sync: _as_coroutine(sync)], ids=["thread", "task"])
async def test_the_current_question_is_known_inside_the_interceptor(asker: Asker, wrap: Any) -> None:
    seen = []

    def look(_context: dict[str, Any]) -> dict[str, str]:
        now = hookbus_interceptors.question()
        seen.append((now.id, now.interceptor, now.point, now.agent, now.remaining_s))
        return dict(ALLOW)

    async with Worker(asker.bus, wrap(look), name="policy"):
        await asker.ask(None, headers(3000, id="first"))
        await asker.ask(None, headers(9000, id="second"), point="input")
        await asker.ask(None, b"")
    assert [one[:4] for one in seen[:2]] == [
        ("first", "policy", "pre_tool_call", AGENT),
        ("second", "policy", "input", AGENT),
    ]
    assert 0 < seen[0][4] <= 3 < seen[1][4] <= 9
    # A question without headers: an id made here, and the default budget.
    assert re.fullmatch("[0-9a-f]{32}", seen[2][0])
    assert 0 < seen[2][4] <= 5


def _as_coroutine(sync: Any) -> Any:
    async def coroutine(context: dict[str, Any]) -> Any:
        return sync(context)

    return coroutine


def test_there_is_no_question_outside_a_question() -> None:
    with pytest.raises(NotAsked, match="inside a worker's interceptor"):
        hookbus_interceptors.question()


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("raise", "ValueError"),
        ("exit", "SystemExit"),
        ("set", "OutOfDomain"),
        ("nan", "OutOfDomain"),
        ("large", "AnswerTooLarge"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda sync: sync, _as_coroutine], ids=["thread", "task"])
async def test_what_is_no_answer_is_a_500_with_a_type_name_at_once(
    asker: Asker, caplog: pytest.LogCaptureFixture, target: str, error: str, wrap: Any
) -> None:
    async with Worker(asker.bus, wrap(interceptors.misbehave), name="policy"):
        answer = await asker.ask(context(target), headers(60_000, id="it"))
        assert answer.error == ("500", error)
        assert answer.body == b""
        assert answer.headers["Hb-Id"] == "it"
        assert "Hb-Elapsed-Us" in answer.headers
        # And nobody else is harmed.
        assert (await asker.ask(context("behave"))).verdict == ALLOW
    assert caplog.records
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert "secret" not in caplog.text


async def test_the_log_says_where_an_interceptor_raised(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    async with Worker(asker.bus, interceptors.misbehave, name="policy"):
        await asker.ask(context("raise"))
    assert re.search(r"raised ValueError at .*interceptors\.py:\d+", caplog.text)


async def test_a_fault_in_to_wire_is_a_500(asker: Asker) -> None:
    class Faulty:
        def to_wire(self) -> None:
            raise KeyError("secret")

    async with Worker(asker.bus, lambda _context: Faulty(), name="policy"):
        assert (await asker.ask()).error == ("500", "KeyError")


async def test_a_cancellation_of_the_interceptors_own_is_a_500(asker: Asker) -> None:
    async def cancels_itself(_context: dict[str, Any]) -> None:
        raise asyncio.CancelledError

    async with Worker(asker.bus, cancels_itself, name="policy"):
        assert (await asker.ask()).error == ("500", "CancelledError")


@pytest.mark.parametrize("returned", [None, True, 7, "allow", [], {}, {"decision": "perhaps"}, {"a": [None]}])
async def test_json_that_is_no_verdict_is_sent_as_it_is(asker: Asker, returned: Any) -> None:
    async with Worker(asker.bus, lambda _context: returned, name="policy"):
        answer = await asker.ask()
    assert answer.error == (None, None)
    assert answer.verdict == returned


class NeedsArguments:
    def __init__(self, rules: Any) -> None:
        self.intercept = rules

    def intercept(self, _context: Any) -> None:
        """Replaced by what it is made with."""


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (7, "cannot be called"),
        (object, "has no method intercept"),
        (
            type("Needs", (), {"__init__": lambda self, x: None, "intercept": lambda self, c: None}),
            "takes arguments",
        ),
    ],
)
async def test_what_cannot_be_asked_is_refused_when_the_worker_is_made(thing: Any, why: str) -> None:
    with pytest.raises(NotAnInterceptor, match=why):
        Worker(hookbus.connect(), thing, name="policy")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"name": ""}, "name"),
        ({"name": "p", "concurrency": 0}, "concurrency"),
        ({"name": "p", "points": ["pre_tool_cal"]}, "the interception points are agent_startup, input, "),
        ({"name": "p", "policy": "a\r\nb"}, "line break"),
        ({"name": "p", "default_budget_s": 0}, "default_budget_s"),
        ({"name": "p", "skew_allowance_s": -1}, "skew_allowance_s"),
    ],
)
async def test_a_wrong_setting_is_refused_when_the_worker_is_made(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Worker(hookbus.connect(), interceptors.allow, **settings)


async def test_a_worker_serves_only_its_points(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.Deny, name="policy", points=["input", "output"]):
        assert (await asker.ask(point="output")).verdict["decision"] == "deny"
        assert (await asker.ask(point="input")).verdict["decision"] == "deny"
        async with hookbus.connect(asker.url, tenant=asker.tenant) as bus:
            with pytest.raises(hookbus.QuestionFailed, match="absent"):
                await bus.interceptor("policy").intercept(context())
