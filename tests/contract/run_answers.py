"""Vectors about answers: their exact bytes, published by a plain socket to a question really asked."""

from __future__ import annotations

import json

import hookbus
from hookbus import Failure, codec
from hookbus.context import outgoing
from hookbus.questions import Answer, Question
from hookbus.server import EmbeddedServer
from hookbus_client import NotAVerdict
from hookbus_client.gate import verdict_of_bytes
from tests.contract.documents import exact
from tests.contract.raw_nats import RawNats
from tests.contract.run_asking import CONTEXTS, LONG_S
from tests.contract.vectors import Answers, octets

#: The id that the vectors give their question.
GIVEN_ID = "0123456789abcdef0123456789abcdef"


async def answers(vector: Answers, server: EmbeddedServer) -> None:
    presented = CONTEXTS["pre_tool_call"]
    async with hookbus.connect(server.url) as bus, RawNats(server.port) as raw:
        raw.subscribe("hb.v1.default.ctx.policy.>", "policy")
        await raw.flush()
        (question,) = bus.ask(outgoing(presented, codec.survey(presented)), [("policy", LONG_S)])
        reply = (await raw.next()).reply
        for answer in vector.answers:
            headers = octets(answer.headers)
            for given, real in ((GIVEN_ID, question.id), (GIVEN_ID.upper(), question.id.upper())):
                headers = headers.replace(given.encode(), real.encode())
            raw.publish(reply if answer.to == "question" else f"{reply}000", octets(answer.body), headers)
        # Two round trips: the server has handed on all of it, and the agent has read all of it.
        await raw.flush()
        assert await bus.flush(timeout_s=LONG_S)
        bus.give_up(question)
        assert bus.is_connected
        assert bus.reconnects == 0
        assert bus.dropped_answers == dict(vector.dropped)
    verdict, failure, reason = _judged(question)
    assert (failure, reason) == (vector.failure, vector.reason)
    assert verdict == (None if vector.verdict is None else exact(json.loads(vector.verdict)))


def _judged(question: Question) -> tuple[str | None, str | None, str | None]:
    """Return the verdict as exact text, or the class of failure and the reserved reason."""
    outcome = question.outcome
    if isinstance(outcome, Answer):
        try:
            return exact(verdict_of_bytes(outcome.body).to_wire()), None, None
        except NotAVerdict as error:
            return None, Failure.MALFORMED.label, error.reason.value
    assert outcome is not None
    return None, outcome.label, outcome.reason
