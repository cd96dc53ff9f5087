"""Records and approvals: the streams themselves

What they are configured to refuse holds against whoever may publish, too: a decision is made once, and nothing is
overwritten or taken out. (``hookbus.authority.streams``)
"""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import uuid4

import pytest

from hookbus.authority import streams
from hookbus.authority.roles import API, Role
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.rogue.matrix import Stop, tried
from tests.rogue.test_aimed import INBOX, OWN, stored

pytestmark = pytest.mark.anyio

_HB: Final = "hb.v1.default"
ALICE: Final = "_INBOX.approver.alice.1"


async def told(wire: Wire, subject: str, body: bytes, inbox: str, headers: bytes = b"") -> dict[str, Any]:
    """Publish and return what the stream, or its API, replies on *inbox*, where *wire* listens."""
    wire.publish(subject, body, headers, reply=inbox)
    reply: dict[str, Any] = json.loads((await wire.next()).body)
    return reply


@tried("approver", "decides twice, the other way", Stop.STREAM, shows="refused")
@tried("approver", "the same, as a retry or over the first one", Stop.STREAM, shows="refused; the first stands")
async def test_a_decision_is_made_once(deployed: Deployment) -> None:
    decision = f"{_HB}.apr.dec.travel.{uuid4().hex}.alice"
    async with deployed.wire(Role.APPROVER, "alice") as alice, deployed.wire(Role.AGENT, "travel") as agent:
        alice.subscribe(ALICE)
        assert (await told(alice, decision, b'"no"', ALICE))["stream"] == "APPROVALS"
        for headers in (b"", b"Nats-Rollup: sub\r\n", b"Nats-Msg-Id: retry\r\n", b"Nats-TTL: 1s\r\n"):
            block = b"NATS/1.0\r\n" + headers + b"\r\n" if headers else b""
            assert "error" in await told(alice, decision, b'"yes"', ALICE, block)
        agent.subscribe(OWN)
        read = await agent.request(f"{API}.DIRECT.GET.APPROVALS.{decision}", inbox=OWN)
        assert read.body == b'"no"'


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(
            "Nats-Rollup: all",
            marks=tried(
                "agent",
                "takes out what stands in the stream, with a record that replaces all or its subject's",
                Stop.STREAM,
                shows="refused",
            ),
        ),
        pytest.param("Nats-Rollup: sub"),
        pytest.param(
            "Nats-TTL: 1s",
            marks=tried("agent", "writes a record that ends by itself", Stop.STREAM, shows="refused"),
        ),
        pytest.param(
            f"Nats-Schedule: @at 2036-01-01T00:00:00Z\r\nNats-Schedule-Target: {_HB}.rec.payroll.input",
            marks=tried(
                "agent", "has the stream publish later, in another agent's name", Stop.STREAM, shows="refused"
            ),
        ),
    ],
)
async def test_a_record_can_do_nothing_to_the_stream(deployed: Deployment, header: str) -> None:
    async with deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN)
        first = await told(rogue, f"{_HB}.rec.travel.input", b"{}", OWN)
        refused = await told(
            rogue, f"{_HB}.rec.travel.input", b"{}", OWN, f"NATS/1.0\r\n{header}\r\n\r\n".encode()
        )
        assert refused["error"]["code"] in (400, 500)
        assert (await told(rogue, f"{_HB}.rec.travel.input", b"{}", OWN))["seq"] == first["seq"] + 1
    assert f"{_HB}.rec.travel.input" in await stored(deployed, "RECORDS")


@tried(
    "agent",
    "takes the message id that another agent is going to use, so that its record is a duplicate",
    Stop.STREAM,
    shows="the acknowledgement says `duplicate`",
)
async def test_a_record_that_another_kept_out_is_known_to_who_wrote_it(deployed: Deployment) -> None:
    taken = f"NATS/1.0\r\nNats-Msg-Id: {uuid4().hex}\r\n\r\n".encode()
    own = OWN.replace(".travel.", ".payroll.")
    async with deployed.wire(Role.AGENT, "travel") as rogue, deployed.wire(Role.AGENT, "payroll") as payroll:
        rogue.subscribe(OWN)
        payroll.subscribe(own)
        assert "duplicate" not in await told(rogue, f"{_HB}.rec.travel.input", b"{}", OWN, taken)
        assert (await told(payroll, f"{_HB}.rec.payroll.input", b"{}", own, taken))["duplicate"] is True


@tried(
    "agent",
    "asks for approval anew under an id that it has used, to change what is approved",
    Stop.STREAM,
    shows="refused",
)
async def test_a_request_is_made_once(deployed: Deployment) -> None:
    request = f"{_HB}.apr.req.travel.{uuid4().hex}"
    async with deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN)
        assert "error" not in await told(rogue, request, b'"book"', OWN)
        assert (
            "maximum messages per subject" in (await told(rogue, request, b'"fire"', OWN))["error"]["description"]
        )


@pytest.mark.parametrize(
    "change", [{"max_msgs": 1}, {"max_age": 1_000_000_000}, {"deny_purge": False}, {"allow_rollup_hdrs": True}]
)
@tried("operator", "makes a stream again, smaller, forgetful or open to purges", Stop.STREAM, shows="refused")
async def test_a_stream_that_stands_is_not_made_anew(deployed: Deployment, change: dict[str, Any]) -> None:
    config = {**streams.streams("default", replicas=1)["RECORDS"], **change}
    async with deployed.wire(Role.OPERATOR, "olga") as rogue:
        rogue.subscribe(INBOX)
        refused = await told(rogue, f"{API}.STREAM.CREATE.RECORDS", json.dumps(config).encode(), INBOX)
        assert refused["error"]["err_code"] in (10052, 10058)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(
            f"{_HB}.apr.dec.travel.pushed.alice",
            marks=tried(
                "operator",
                "makes a consumer that pushes a record into the approvals, as a decision",
                Stop.ACCOUNT,
                shows="delivers nothing: no client listens there",
            ),
        ),
        pytest.param(
            "$JS.API.STREAM.DELETE.APPROVALS",
            marks=tried(
                "operator",
                "makes one that pushes into the streams' API",
                Stop.ACCOUNT,
                shows="delivers nothing: no client listens there",
            ),
        ),
        pytest.param(
            INBOX,
            marks=tried(
                "operator",
                "makes one that pushes to the operator's own inbox, to read",
                Stop.ACCOUNT,
                shows="delivers nothing: another account",
            ),
        ),
    ],
)
async def test_a_consumer_that_pushes_delivers_nowhere(deployed: Deployment, target: str) -> None:
    name = uuid4().hex
    async with (
        deployed.wire(Role.OPERATOR, "olga") as rogue,
        deployed.wire(Role.AGENT, "travel") as accomplice,
        deployed.wire(Role.AUDITOR, "ada") as ada,
    ):
        rogue.subscribe(INBOX)
        accomplice.subscribe(OWN)
        ada.subscribe("_INBOX.auditor.ada.1")
        config = {"name": name, "durable_name": name, "deliver_subject": target, "ack_policy": "none"}
        body = json.dumps({"stream_name": "RECORDS", "config": config, "action": "create"}).encode()
        assert "error" not in await told(rogue, f"{API}.CONSUMER.CREATE.RECORDS.{name}", body, INBOX)
        # An empty body is what the streams' API would take as a request.
        last = (await told(accomplice, f"{_HB}.rec.travel.output", b"", OWN))["seq"]
        while True:
            read = await ada.request(f"{API}.CONSUMER.MSG.NEXT.RECORDS.auditor-ada", inbox="_INBOX.auditor.ada.1")
            if read.reply.split(".")[5] == str(last):
                break
        info = await told(rogue, f"{API}.CONSUMER.INFO.RECORDS.{name}", b"", INBOX)
        assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 0}
        assert info["num_pending"] >= 1
        assert not info.get("push_bound", False)
        assert rogue.waiting() == []
    assert not any("pushed" in subject for subject in await stored(deployed, "APPROVALS"))


@tried("operator", "turns a reader's durable into one that pushes elsewhere", Stop.STREAM, shows="refused")
async def test_a_readers_durable_pushes_nowhere(deployed: Deployment) -> None:
    config = {
        **streams.durables("default", Role.AUDITOR, "eve")["RECORDS"],
        "deliver_subject": f"{_HB}.apr.dec.travel.turned.alice",
    }
    body = json.dumps({"stream_name": "RECORDS", "config": config}).encode()
    async with deployed.wire(Role.OPERATOR, "olga") as rogue:
        rogue.subscribe(INBOX)
        refused = await told(rogue, f"{API}.CONSUMER.CREATE.RECORDS.auditor-eve", body, INBOX)
        assert "pull consumer to push" in refused["error"]["description"]


@tried(
    "approver",
    "has what it reads delivered into a stream or the streams' API",
    Stop.ACCOUNT,
    shows="not delivered there",
)
@tried("auditor", "the same", Stop.ACCOUNT, shows="not delivered there")
async def test_what_a_reader_pulls_is_delivered_into_no_stream(deployed: Deployment) -> None:
    targets = (
        f"{_HB}.rec.travel.pulled",
        f"{_HB}.apr.dec.travel.pulled.alice",
        "$JS.API.STREAM.DELETE.APPROVALS",
        f"{API}.STREAM.DELETE.APPROVALS",
    )
    readers = ((Role.APPROVER, "alice", "APPROVALS"), (Role.AUDITOR, "ada", "APPROVALS"))
    async with deployed.wire(Role.AGENT, "travel") as agent:
        agent.subscribe(OWN)
        for role, name, stream in readers:
            async with deployed.wire(role, name) as rogue:
                for target in targets:
                    await told(agent, f"{_HB}.apr.req.travel.{uuid4().hex}", b"", OWN)
                    rogue.publish(f"{API}.CONSUMER.MSG.NEXT.{stream}.{role}-{name}", b"", reply=target)
                inbox = f"_INBOX.{role}.{name}.1"
                rogue.subscribe(inbox)
                last = (await told(agent, f"{_HB}.apr.req.travel.{uuid4().hex}", b"last", OWN))["seq"]
                while True:
                    read = await rogue.request(f"{API}.CONSUMER.MSG.NEXT.{stream}.{role}-{name}", inbox=inbox)
                    if read.reply.split(".")[5] == str(last):
                        break
        # What is acknowledged now comes after all of it.
        await told(agent, f"{_HB}.rec.travel.output", b"{}", OWN)
    held = await stored(deployed, "RECORDS") | await stored(deployed, "APPROVALS")
    assert not any("pulled" in subject for subject in held)


@tried(
    "agent",
    "reads another's message through the body of a read that it is permitted",
    Stop.STREAM,
    shows="refused: `408`",
)
async def test_a_read_by_subject_reads_nothing_else(deployed: Deployment) -> None:
    decision = f"{_HB}.apr.dec.travel.{uuid4().hex}.alice"
    async with deployed.wire(Role.APPROVER, "alice") as alice, deployed.wire(Role.AGENT, "travel") as rogue:
        alice.subscribe(ALICE)
        await told(alice, decision, b'"no"', ALICE)
        rogue.subscribe(OWN)
        for body in (
            b'{"seq":1}',
            b'{"last_by_subj":"hb.v1.default.apr.req.>"}',
            b'{"multi_last":["hb.v1.default.>"]}',
        ):
            read = await rogue.request(f"{API}.DIRECT.GET.APPROVALS.{decision}", body, inbox=OWN)
            assert (read.headers, read.body) == (b"NATS/1.0 408 Bad Request\r\n\r\n", b"")
