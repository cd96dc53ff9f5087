"""Who approves must see what runs: the framework's own approval comes too early for that, the seam does not."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import Agent, AgentResponse, AgentSession, Message
from agent_hooks import Verdict
from agent_hooks.approval import ApprovalOutcome, ApprovalRequest, ApprovalResolution

from .bookings import Bookings
from .guarded import At, guarded, replacing
from .scripted import ScriptedChatClient, calls, says

pytestmark = pytest.mark.anyio

TO_SECOND = replacing("$target.seat_class", "second")
FIRST = {"seat_class": "first"}


class Person:
    """Answers every request in one way, and keeps what was presented."""

    def __init__(self, outcome: ApprovalOutcome, verdict: Verdict | None) -> None:
        self._outcome, self._verdict = outcome, verdict
        self.presented: list[dict[str, Any]] = []

    async def resolve(self, request: ApprovalRequest) -> ApprovalResolution:
        self.presented.append(request.context["tool_call"]["args"])
        return ApprovalResolution(self._outcome, request.context_identity, self._verdict)


async def approve(agent: Agent, pending: AgentResponse, session: AgentSession) -> AgentResponse:
    """The next turn, with the one pending request approved as it stands."""
    (request,) = pending.user_input_requests
    return await agent.run(
        Message("user", [request.to_function_approval_response(approved=True)]), session=session
    )


def requested(pending: AgentResponse) -> list[dict[str, Any]]:
    return [request.function_call.parse_arguments() for request in pending.user_input_requests]


async def test_a_transform_after_the_frameworks_own_approval_makes_the_approved_call_another_call(
    nats_url: str,
) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("booked")])
    bookings = Bookings(approval_mode="always_require")
    async with guarded(nats_url, policy=At("pre_tool_call", TO_SECOND)) as guard:
        agent = guard.agent(client, [bookings.tool])
        session = agent.create_session()
        pending = await agent.run("book me a seat", session=session)
        assert requested(pending) == [FIRST]

        again = await approve(agent, pending, session)
        assert requested(again) == [{"seat_class": "second"}]
        assert bookings.made == [], "what ran is not what the person approved"

        await approve(agent, again, session)

    assert [made["seat_class"] for made in bookings.made] == ["second"]


async def test_a_transform_that_differs_each_time_never_passes_the_frameworks_own_approval(
    nats_url: str,
) -> None:
    def stamp(context: dict[str, Any]) -> dict[str, Any]:
        args = {**context["target"], "note": str(context["sequence"])}
        return {"decision": "transform", "transform": {"path": "$target", "value": args}}

    client = ScriptedChatClient([calls("book_ticket", FIRST)])
    bookings = Bookings(approval_mode="always_require")
    async with guarded(nats_url, policy=At("pre_tool_call", stamp)) as guard:
        agent = guard.agent(client, [bookings.tool])
        session = agent.create_session()
        pending = await agent.run("book me a seat", session=session)
        for _ in range(3):
            pending = await approve(agent, pending, session)
            assert len(pending.user_input_requests) == 1

    assert bookings.made == []


async def test_an_escalated_call_runs_once_with_exactly_what_the_person_saw(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("booked")])
    bookings = Bookings()
    person = Person(ApprovalOutcome.APPROVE, Verdict.allow())
    async with guarded(
        nats_url,
        resolver=person,
        rewriter=At("pre_tool_call", TO_SECOND),
        policy=At("pre_tool_call", Verdict.escalate(reason="needs_manager")),
    ) as guard:
        response = await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert person.presented == [{"seat_class": "second"}]
    assert [made["seat_class"] for made in bookings.made] == ["second"]
    assert response.text.endswith("booked")


async def test_an_interceptor_after_the_escalating_one_cannot_change_what_was_approved(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("booked")])
    bookings = Bookings()
    person = Person(ApprovalOutcome.APPROVE, Verdict.allow())
    async with guarded(
        nats_url,
        resolver=person,
        policy=At("pre_tool_call", Verdict.escalate(reason="needs_manager")),
        rewriter=At("pre_tool_call", TO_SECOND),
    ) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert person.presented == [FIRST]
    assert [made["seat_class"] for made in bookings.made] == ["first"]


async def test_a_refused_approval_leaves_the_tool_alone_and_the_model_reads_the_refusal(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("I may not.")])
    bookings = Bookings()
    person = Person(ApprovalOutcome.REJECT, Verdict.deny(reason="manager_said_no"))
    policy = At("pre_tool_call", Verdict.escalate(reason="needs_manager"))
    async with guarded(nats_url, resolver=person, policy=policy) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == []
    assert "manager_said_no" in client.read_results()[0]


async def test_without_a_resolver_an_escalation_stands_as_a_deny(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("I may not.")])
    bookings = Bookings()
    policy = At("pre_tool_call", Verdict.escalate(reason="needs_manager"))
    async with guarded(nats_url, policy=policy) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == []
    assert "needs_manager" in client.read_results()[0]


async def test_a_transform_of_the_tool_calls_after_the_model_is_what_the_frameworks_own_approval_shows(
    nats_url: str,
) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("booked")])
    bookings = Bookings(approval_mode="always_require")
    downgrade = At("post_model_call", replacing("$target.tool_calls[0].args.seat_class", "second"))
    async with guarded(nats_url, policy=downgrade) as guard:
        agent = guard.agent(client, [bookings.tool])
        session = agent.create_session()
        pending = await agent.run("book me a seat", session=session)
        assert requested(pending) == [{"seat_class": "second"}]

        downgrade.verdict = Verdict.allow()
        await approve(agent, pending, session)

    assert [made["seat_class"] for made in bookings.made] == ["second"]
