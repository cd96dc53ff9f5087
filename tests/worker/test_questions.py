"""What a worker requires of a question before it starts (contract, sections 1 and 2)."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookbus import envelope, subjects
from hookbus_interceptors import Worker, intake
from tests.worker import interceptors
from tests.worker.asking import AGENT, POINT, Asker, context, headers

HOUR_MS = 3_600_000


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "raw_headers", "error"),
    [
        (b"{", None, "Undecodable"),
        (b"", None, "Undecodable"),
        (b"[]", None, "Undecodable"),
        (b"\xff\xfe", None, "Undecodable"),
        (b"[" * 100_000, None, "Undecodable"),
        ({}, None, "WrongAgent"),
        ({"agent": AGENT}, None, "WrongAgent"),
        ({"agent": {"id": 7}}, None, "WrongAgent"),
        (context(agent="another"), None, "WrongAgent"),
        (context(agent="Traveller"), None, "WrongAgent"),
        (context(tenant={"id": "another"}), None, "WrongTenant"),
        (context(tenant={"id": None}), None, "WrongTenant"),
        (context(tenant="another"), None, "WrongTenant"),
        (context(interception_point="post_tool_call"), None, "WrongPoint"),
        (context(interception_point=["pre_tool_call"]), None, "WrongPoint"),
        ({"agent": {"id": AGENT}}, None, "WrongPoint"),
        (context(), headers(contract="2"), "ContractVersion"),
        (context(), headers(contract="1.0"), "ContractVersion"),
        (context(), headers(expires_ms="soon"), "HeadersMalformed"),
        (context(), headers(-1, expires_ms="1"), "HeadersMalformed"),
        (context(), headers(expires_ms="1e3"), "HeadersMalformed"),
        (context(), headers(id="two words"), "HeadersMalformed"),
        (context(), headers(id="x" * 129), "HeadersMalformed"),
        (context(), b"NATS/1.0\r\nHb-Budget-Ms\r\n\r\n", "HeadersMalformed"),
        (context(), b"NATS/1.0\r\nHb-Id: \xff\r\n\r\n", "HeadersMalformed"),
        (context(), b"NATS/1.0\r\nHb-Id: a\r\nHb-Id: b\r\n\r\n", "HeadersMalformed"),
    ],
    # By number: bytes with the time in them would give every process another name for the same test.
    ids=itertools.count(),
)
async def test_a_malformed_question_is_refused_with_400(
    asker: Asker, body: Any, raw_headers: bytes | None, error: str
) -> None:
    asked = []
    async with Worker(asker.bus, asked.append, name="policy"):
        answer = await asker.ask(body, raw_headers)
    assert answer.error == ("400", error)
    assert answer.body == b""
    assert asked == []


@pytest.mark.anyio
async def test_a_refusal_names_the_question_only_where_its_id_can_be_read(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        assert (await asker.ask(b"{", headers(id="it"))).headers["Hb-Id"] == "it"
        assert "Hb-Id" not in (await asker.ask(b"{", headers(id="two words"))).headers


@pytest.mark.anyio
async def test_an_agent_and_a_tenant_that_map_to_the_subject_are_accepted(asker: Asker) -> None:
    name = "Agent of Ünusual name"
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        answer = await asker.ask(context(agent=name), agent=subjects.token(name))
        assert answer.verdict == {"decision": "allow"}
        for tenant in ({"id": asker.tenant}, {}, {"name": "a name is no id"}, None):
            assert (await asker.ask(context(tenant=tenant))).verdict == {"decision": "allow"}


@pytest.mark.anyio
async def test_unknown_headers_are_ignored(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        answer = await asker.ask(None, headers(something_new="7"))
    assert answer.verdict == {"decision": "allow"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("budget_ms", "expires"),
    [(0, {}), (5000, {"expires_ms": "1"}), (5000, {"expires_ms": str(unix_ms() - 1)}), (0, {"expires_ms": ""})],
    ids=itertools.count(),
)
async def test_a_question_that_expired_by_either_clock_is_never_started(
    asker: Asker, budget_ms: int, expires: dict[str, str]
) -> None:
    asked = []
    async with Worker(asker.bus, asked.append, name="policy"):
        assert (await asker.ask(None, headers(budget_ms, **expires))).error == ("408", "Expired")
    assert asked == []


@pytest.mark.anyio
async def test_an_agent_whose_clock_is_an_hour_ahead_is_served_within_its_budget(asker: Asker) -> None:
    async with Worker(asker.bus, interceptors.misbehave, name="policy") as worker:
        ahead = str(unix_ms() + HOUR_MS)
        assert (await asker.ask(None, headers(5000, expires_ms=ahead))).verdict == {"decision": "allow"}
        # The budget ends it all the same: the hour changes nothing.
        asker.send(context("hang"), headers(200, expires_ms=ahead))
        await abandoned(worker, 1)


@pytest.mark.anyio
async def test_an_agent_whose_clock_is_an_hour_behind_is_refused_unless_that_is_allowed(asker: Asker) -> None:
    behind = str(unix_ms() - HOUR_MS)
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        assert (await asker.ask(None, headers(5000, expires_ms=behind))).error == ("408", "Expired")
    async with Worker(asker.bus, interceptors.misbehave, name="policy", skew_allowance_s=2 * 3600) as worker:
        assert (await asker.ask(None, headers(5000, expires_ms=behind))).verdict == {"decision": "allow"}
        asker.send(context("hang"), headers(200, expires_ms=behind))
        await abandoned(worker, 1)


async def abandoned(worker: Worker, count: int) -> None:
    async with asyncio.timeout(10):
        while worker.tallies[0].data["abandoned"] < count:  # noqa: ASYNC110  # nothing tells of an abandoned question
            await asyncio.sleep(0.01)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "reply",
    [
        "_INBOX.abc",
        "$JS.API.STREAM.DELETE.records",
        "hb.v1.{tenant}.ans.redactor.traveller.c0ffee.1",
        "hb.v1.{tenant}.ans.policy.another.c0ffee.1",
        "hb.v1.{tenant}.ans.policy.travellers.c0ffee.1",
        "hb.v1.another.ans.policy.traveller.c0ffee.1",
        "hb.v1.{tenant}.ctx.another.pre_tool_call.traveller",
        "",
    ],
)
@pytest.mark.parametrize("body", [context(), b"{"], ids=["answer", "refusal"])
async def test_nothing_is_published_where_a_stranger_points(asker: Asker, reply: str, body: Any) -> None:
    heard: list[Any] = []
    reply = reply.format(tenant=asker.tenant)
    if reply:
        asker.bus.serve([reply], "", heard.append, on_refused=heard.append)
    async with Worker(asker.bus, interceptors.allow, name="policy") as worker:
        subject = subjects.question(asker.tenant, "policy", POINT, AGENT)
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        asker.bus.publish(subject, sent, headers(), reply)
        # The next answer comes after whatever the first question could have brought.
        await asker.ask()
        assert worker.tallies[0].data == {"unanswerable": 1, "answered": 1}
    assert heard == []


# ---- laws, without a server -----------------------------------------------------------------------


@given(raw=st.binary() | st.binary().map(lambda tail: b"NATS/1.0\r\n" + tail + b"\r\n\r\n"))
def test_header_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    try:
        terms = intake.read_terms(raw)
    except intake.Refused as refused:
        check_refusal(refused)
    else:
        envelope.encode({envelope.ID: terms.id or ""})


BODIES = (
    b"{}",
    b"[]",
    b'{"agent":{"id":"a"}}',
    b'{"agent":{"id":"a\xff"}}',
    b'{"agent":{"id":"a"},"interception_point":"output"}',
    b'{"agent":{"id":"a"},"interception_point":"input"}',
)


@given(body=st.binary() | st.sampled_from(BODIES))
def test_a_body_is_a_context_or_refused_and_nothing_else(body: bytes) -> None:
    try:
        decoded = intake.read_context(body, "default", "input", "a")
    except intake.Refused as refused:
        check_refusal(refused)
    else:
        assert (decoded["agent"]["id"], decoded["interception_point"]) == ("a", "input")


def check_refusal(refused: intake.Refused) -> None:
    assert refused.code == "400"
    assert envelope.is_type_name(refused.type_name)


MS = st.integers(0, 10**6)


@given(
    budget=st.none() | MS,
    expires=st.none() | MS,
    waited=MS,
    unix=MS,
    default=st.integers(1, 10**6),
    skew=MS,
    more=MS,
)
def test_no_clock_ever_makes_a_question_live_longer_than_its_budget(
    budget: int | None, expires: int | None, waited: int, unix: int, default: int, skew: int, more: int
) -> None:
    now_s = 1000.0

    def deadline(skew_ms: int) -> float:
        return intake.deadline(
            intake.Terms("id", budget, expires),
            arrived_s=now_s - waited / 1000,
            now_s=now_s,
            now_unix_ms=unix,
            default_ms=default,
            skew_ms=skew_ms,
        )

    by_budget = now_s + ((default if budget is None else budget) - waited) / 1000
    assert deadline(skew) <= by_budget + 1e-6  # a float's rounding
    assert deadline(skew) <= deadline(skew + more)
    if expires is not None and expires + skew <= unix:
        assert deadline(skew) <= now_s
