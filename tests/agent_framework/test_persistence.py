"""What a verdict denied never becomes history; what it changed becomes history as changed."""

from __future__ import annotations

import pytest
from agent_framework import AgentSession, InMemoryHistoryProvider
from agent_hooks import InterceptionBlocked, Verdict

from .guarded import At, guarded, replacing, run
from .scripted import ScriptedChatClient, says

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])]


class History:
    """A session whose stored messages can be read back."""

    def __init__(self) -> None:
        self.provider = InMemoryHistoryProvider()
        self.session = AgentSession()

    @property
    def texts(self) -> list[str]:
        stored = self.session.state.get(self.provider.source_id, {}).get("messages", [])
        return [message.text for message in stored]


@pytest.mark.parametrize(
    ("point", "per_call"),
    [("input", False), ("post_model_call", False), ("output", False), ("input", True), ("post_model_call", True)],
    ids=lambda value: {True: "per_model_call", False: "at_run_end"}.get(value, value),
)
async def test_a_denied_turn_leaves_no_trace_in_history(
    nats_url: str, stream: bool, point: str, per_call: bool
) -> None:
    history = History()
    async with guarded(nats_url, policy=At(point, Verdict.deny(reason="leak"))) as guard:
        agent = guard.agent(
            ScriptedChatClient([says("the pin is 4711")]),
            context_providers=[history.provider],
            require_per_service_call_history_persistence=per_call,
        )
        with pytest.raises(InterceptionBlocked):
            await run(agent, "hello", stream=stream, session=history.session)

    assert history.texts == []


async def test_an_allowed_turn_becomes_history(nats_url: str, stream: bool) -> None:
    history = History()
    async with guarded(nats_url, policy=At("input", Verdict.allow())) as guard:
        agent = guard.agent(ScriptedChatClient([says("good day")]), context_providers=[history.provider])
        await run(agent, "hello", stream=stream, session=history.session)

    assert history.texts == ["hello", "good day"]


async def test_history_keeps_the_transformed_output_and_never_the_original(nats_url: str, stream: bool) -> None:
    hidden = replacing("$target.content", "the pin is ****")
    history = History()
    async with guarded(nats_url, redactor=At("output", hidden)) as guard:
        agent = guard.agent(ScriptedChatClient([says("the pin is 4711")]), context_providers=[history.provider])
        await run(agent, "hello", stream=stream, session=history.session)

    assert history.texts == ["hello", "the pin is ****"]


async def test_a_denied_turn_after_an_allowed_one_leaves_the_first_as_it_was(nats_url: str, stream: bool) -> None:
    history = History()

    def no_pins(context: dict) -> Verdict:
        return Verdict.deny(reason="leak") if "pin" in context["output"]["content"] else Verdict.allow()

    async with guarded(nats_url, policy=At("output", no_pins)) as guard:
        client = ScriptedChatClient([says("good day"), says("the pin is 4711")])
        agent = guard.agent(client, context_providers=[history.provider])
        await run(agent, "hello", stream=stream, session=history.session)
        with pytest.raises(InterceptionBlocked):
            await run(agent, "and the pin?", stream=stream, session=history.session)

    assert history.texts == ["hello", "good day"]


async def test_a_model_calls_own_history_stays_when_the_output_is_denied(nats_url: str, stream: bool) -> None:
    history = History()
    async with guarded(nats_url, policy=At("output", Verdict.deny(reason="leak"))) as guard:
        agent = guard.agent(
            ScriptedChatClient([says("good day")]),
            context_providers=[history.provider],
            require_per_service_call_history_persistence=True,
        )
        with pytest.raises(InterceptionBlocked):
            await run(agent, "hello", stream=stream, session=history.session)

    assert history.texts == ["hello", "good day"]
