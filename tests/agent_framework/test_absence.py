"""Nobody answering is a denial, at once, at every seam of the framework."""

from __future__ import annotations

import pytest
from agent_framework import AgentSession, InMemoryHistoryProvider
from agent_hooks import InterceptionBlocked, Verdict

from .bookings import Bookings
from .guarded import At, guarded, run
from .scripted import ScriptedChatClient, calls

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_run_without_its_worker_is_denied_before_the_model_is_called(nats_url: str, stream: bool) -> None:
    client = ScriptedChatClient([])
    history, session = InMemoryHistoryProvider(), AgentSession()
    async with guarded(nats_url) as guard:
        guard.emitter.register(guard.bus.interceptor("policy"), name="policy")
        agent = guard.agent(client, context_providers=[history])
        with pytest.raises(InterceptionBlocked) as blocked:
            await run(agent, "hello", stream=stream, session=session)

    assert blocked.value.result.verdict.reason == "host_error:interceptor_failed"
    assert blocked.value.result.verdict.message == "absent: no worker of 'policy' is subscribed"
    assert client.requests == []
    assert session.state.get(history.source_id, {}).get("messages", []) == []


async def test_a_tool_whose_policy_has_no_worker_never_runs_and_the_run_ends_there(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "first"})])
    bookings = Bookings()
    async with guarded(nats_url, observer=At("input", Verdict.allow())) as guard:
        guard.emitter.register(guard.bus.interceptor("policy"), name="policy", at=["pre_tool_call"])
        with pytest.raises(InterceptionBlocked) as blocked:
            await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert blocked.value.result.interception_point.value == "pre_tool_call"
    assert blocked.value.result.verdict.message == "absent: no worker of 'policy' is subscribed"
    assert bookings.made == []
    assert len(client.requests) == 1
