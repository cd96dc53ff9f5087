"""What the permissions are for works with them, over TLS: questions, records, approvals, operators' requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.authority import streams
from hookbus.authority.errors import NameUnknown, StreamRefused
from hookbus.authority.roles import API, Role
from hookbus_client import BusEmitter
from hookbus_interceptors import Worker
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire

pytestmark = pytest.mark.anyio

#: Where an agent has the streams reply: among its answers, in the place of an interceptor that cannot exist.
OWN = "hb.v1.default.ans._streams.{agent}.c0ffee.1"


async def state(deployed: Deployment, stream: str) -> dict[str, Any]:
    """Return what the server says of *stream*, as the operator may ask."""
    async with deployed.wire(Role.OPERATOR, "olga") as operator:
        inbox = "_INBOX.operator.olga.info"
        operator.subscribe(inbox)
        body = b'{"subjects_filter":">"}'
        reply = await operator.request(f"{API}.STREAM.INFO.{stream}", body, inbox=inbox)
    found: dict[str, Any] = json.loads(reply.body)["state"]
    return found


async def sent(agent: Wire, name: str, subject: str, body: bytes) -> dict[str, Any]:
    """Publish as agent *name* and return the stream's acknowledgement."""
    own = OWN.format(agent=name)
    agent.subscribe(own)
    reply = await agent.request(subject, body, inbox=own)
    acknowledged: dict[str, Any] = json.loads(reply.body)
    return acknowledged


async def emitted(bus: hookbus.Connection) -> tuple[str, str | None]:
    builder = AgentContextBuilder(agent_id="travel", framework="tests", session_id="s")
    emitter = BusEmitter(timeout=20.0).register(bus.interceptor("policy"))
    record = await emitter.emit_unchecked(builder.pre_tool_call(call_id="c", name="book", args={}))
    return record.verdict.decision.value, record.verdict.message


async def test_an_agent_is_answered_by_a_worker_and_knows_at_once_when_none_is_there(deployed: Deployment) -> None:
    async with hookbus.connect(config=deployed.settings(Role.AGENT, "travel")) as agent:
        assert await emitted(agent) == ("deny", "absent: no worker of 'policy' is subscribed")
        async with hookbus.connect(config=deployed.settings(Role.WORKER, "policy")) as bus:
            async with Worker(bus, lambda context: {"decision": "allow"}, name="policy"):
                assert await emitted(agent) == ("allow", None)
        assert await emitted(agent) == ("deny", "absent: no worker of 'policy' is subscribed")


async def test_an_operator_hears_the_workers_and_they_answer_no_one_else(deployed: Deployment) -> None:
    async with (
        hookbus.connect(config=deployed.settings(Role.WORKER, "policy")) as bus,
        Worker(bus, lambda context: {"decision": "allow"}, name="policy") as worker,
        deployed.wire(Role.OPERATOR, "olga") as operator,
    ):
        operator.subscribe("_INBOX.operator.olga.1")
        told = await operator.request("$SRV.INFO.policy", inbox="_INBOX.operator.olga.1")
        assert json.loads(told.body)["id"] == worker.id


async def test_a_record_reaches_its_stream_and_the_agent_knows(deployed: Deployment) -> None:
    async with deployed.wire(Role.AGENT, "travel") as agent:
        acknowledged = await sent(agent, "travel", "hb.v1.default.rec.travel.input", b"{}")
    assert acknowledged == {"stream": "RECORDS", "seq": acknowledged["seq"]}
    assert (await state(deployed, "RECORDS"))["subjects"]["hb.v1.default.rec.travel.input"] >= 1


async def test_an_approval_goes_to_the_approver_and_its_decision_back_through_the_stream(
    deployed: Deployment,
) -> None:
    decision = "hb.v1.default.apr.dec.travel.book.alice"
    own = OWN.format(agent="travel")
    async with (
        deployed.wire(Role.AGENT, "travel") as agent,
        deployed.wire(Role.APPROVER, "alice") as alice,
        deployed.wire(Role.AUDITOR, "ada") as ada,
    ):
        alice.subscribe("_INBOX.approver.alice.*")
        ada.subscribe("_INBOX.auditor.ada.*")
        await sent(agent, "travel", "hb.v1.default.apr.req.travel.book", b'{"book":"first class"}')
        pull = f"{API}.CONSUMER.MSG.NEXT.APPROVALS.approver-alice"
        asked = await alice.request(pull, inbox="_INBOX.approver.alice.1")
        assert (asked.subject, asked.body) == ("hb.v1.default.apr.req.travel.book", b'{"book":"first class"}')
        alice.publish(asked.reply, b"+ACK")
        stored = await alice.request(decision, b'"yes"', inbox="_INBOX.approver.alice.2")
        assert json.loads(stored.body)["stream"] == "APPROVALS"
        again = await alice.request(decision, b'"no"', inbox="_INBOX.approver.alice.3")
        assert "maximum messages per subject" in json.loads(again.body)["error"]["description"]
        read = await agent.request(f"{API}.DIRECT.GET.APPROVALS.hb.v1.default.apr.dec.travel.book.*", inbox=own)
        assert read.body == b'"yes"'
        assert f"Nats-Subject: {decision}".encode() in read.headers
        audited = f"{API}.CONSUMER.MSG.NEXT.APPROVALS.auditor-ada"
        ada.publish(audited, b'{"batch":2,"expires":5000000000}', reply="_INBOX.auditor.ada.1")
        assert [(await ada.next()).subject for _ in range(2)] == ["hb.v1.default.apr.req.travel.book", decision]


async def test_a_decision_reaches_no_agent_that_merely_listens(deployed: Deployment) -> None:
    async with deployed.wire(Role.AGENT, "travel") as agent, deployed.wire(Role.APPROVER, "alice") as alice:
        agent.subscribe("hb.v1.default.ans.*.travel.>")
        alice.subscribe("_INBOX.approver.alice.*")
        await agent.flush()
        await alice.request("hb.v1.default.apr.dec.travel.heard.alice", b"{}", inbox="_INBOX.approver.alice.1")
        await agent.flush()
        assert agent.waiting() == []


async def test_no_reply_of_the_streams_can_be_aimed_into_a_stream(deployed: Deployment) -> None:
    aimed_by_an_agent = ("hb.v1.default.rec.payroll.input", "hb.v1.default.apr.req.payroll.blocked")
    aimed_by_a_reader = (
        "hb.v1.default.rec.travel.input",
        "hb.v1.default.apr.dec.travel.aimed.alice",
        "hb.v1.default.apr.dec.travel.aimed.bob",
        "$JS.API.STREAM.DELETE.APPROVALS",
        "$JS.streams.API.STREAM.DELETE.APPROVALS",
    )
    async with deployed.wire(Role.AGENT, "travel") as agent, deployed.wire(Role.AUDITOR, "ada") as ada:
        for subject in aimed_by_an_agent:
            agent.publish("hb.v1.default.rec.travel.output", b"{}", reply=subject)
        await agent.flush()
        # What is acknowledged after them comes after them.
        last = (await sent(agent, "travel", "hb.v1.default.rec.travel.output", b"{}"))["seq"]
        pull = f"{API}.CONSUMER.MSG.NEXT.RECORDS.auditor-ada"
        for subject in aimed_by_a_reader:
            ada.publish(pull, b"", reply=subject)
        ada.subscribe("_INBOX.auditor.ada.*")
        while True:
            read = await ada.request(pull, inbox="_INBOX.auditor.ada.1")
            if read.reply.split(".")[5] == str(last):
                break
        later = await sent(agent, "travel", "hb.v1.default.rec.travel.output", b"{}")
        assert agent.errors == []
    assert later["seq"] == last + 1
    records, approvals = await state(deployed, "RECORDS"), await state(deployed, "APPROVALS")
    assert not any(".payroll." in subject for subject in (*records["subjects"], *approvals["subjects"]))
    assert not any(".aimed." in subject for subject in approvals["subjects"])


async def test_one_tenant_sees_nothing_of_another(deployed: Deployment) -> None:
    async with deployed.wire(Role.AGENT, "travel", "acme") as agent:
        agent.subscribe("hb.v1.acme.ans.*.travel.>")
        reply = "hb.v1.acme.ans._streams.travel.c0ffee.1"
        stored = await agent.request("hb.v1.acme.rec.travel.startup", b"{}", inbox=reply)
        assert json.loads(stored.body)["stream"] == "RECORDS"
    assert not any(".startup" in subject for subject in (await state(deployed, "RECORDS"))["subjects"])


async def test_streams_and_durables_are_made_once_and_left_as_they_are(deployed: Deployment) -> None:
    before = await state(deployed, "RECORDS")
    made = await streams.make(deployed.authority, "default", "olga")
    assert made == (
        "stream RECORDS",
        "stream APPROVALS",
        "durable approver-alice on APPROVALS",
        "durable approver-bob on APPROVALS",
        "durable auditor-ada on RECORDS",
        "durable auditor-ada on APPROVALS",
        "durable auditor-eve on RECORDS",
        "durable auditor-eve on APPROVALS",
    )
    assert await state(deployed, "RECORDS") == before
    with pytest.raises(StreamRefused, match="stream RECORDS: "):
        await streams.make(deployed.authority, "default", "olga", replicas=3)
    with pytest.raises(NameUnknown, match="has no operator 'nobody'; it has 'olga'"):
        await streams.make(deployed.authority, "default", "nobody")


async def test_nothing_in_a_stream_is_deleted_even_by_who_could_ask(deployed: Deployment) -> None:
    for config in streams.streams("default", replicas=1).values():
        assert (config["deny_delete"], config["deny_purge"], config["discard"]) == (True, True, "new")
    async with deployed.wire(Role.OPERATOR, "olga") as operator:
        operator.subscribe("_INBOX.operator.olga.*")
        smaller = {**streams.streams("default", replicas=1)["RECORDS"], "max_msgs": 1}
        create = f"{API}.STREAM.CREATE.RECORDS"
        told = await operator.request(create, json.dumps(smaller).encode(), inbox="_INBOX.operator.olga.1")
        assert "different configuration" in json.loads(told.body)["error"]["description"]


async def test_a_stream_that_is_missing_is_known_to_who_publishes(own: Deployment) -> None:
    async with own.wire(Role.AGENT, "travel") as agent:
        reply = OWN.format(agent="travel")
        agent.subscribe(reply)
        async with asyncio.timeout(20):
            told = await agent.request("hb.v1.default.rec.travel.input", b"{}", inbox=reply)
    assert told.headers.startswith(b"NATS/1.0 503")
