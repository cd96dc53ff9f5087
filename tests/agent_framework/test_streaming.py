"""A stream releases nothing before the verdict that covers it."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

import pytest
from agent_framework import AgentResponseUpdate
from agent_hooks import ALLOW, InterceptionBlocked, Verdict

from .bookings import Bookings
from .guarded import At, guarded, replacing
from .scripted import ScriptedChatClient, calls, says

pytestmark = pytest.mark.anyio


async def release(stream: AsyncIterable[AgentResponseUpdate], released: list[str]) -> None:
    """Note every update's text in *released* the moment it comes out."""
    async for update in stream:
        released.append(update.text)


@pytest.mark.parametrize("point", ["input", "pre_model_call", "post_model_call", "output"])
async def test_a_denied_stream_releases_no_chunk(nats_url: str, point: str) -> None:
    client = ScriptedChatClient([says("the ", "pin ", "is ", "4711")])
    released: list[str] = []
    async with guarded(nats_url, policy=At(point, Verdict.deny(reason="leak"))) as guard:
        with pytest.raises(InterceptionBlocked) as blocked:
            await release(guard.agent(client).run("hello", stream=True), released)

    assert released == []
    assert blocked.value.result.verdict.reason == "leak"
    assert client.streamed == (4 if point in ("post_model_call", "output") else 0)


async def test_every_chunk_waits_for_the_verdict_on_the_whole(nats_url: str) -> None:
    released: list[str] = []
    released_before_a_verdict: list[int] = []

    def at_output(context: dict[str, Any]) -> Verdict:
        released_before_a_verdict.append(len(released))
        assert context["output"]["content"] == "one two three"
        return ALLOW

    client = ScriptedChatClient([says("one ", "two ", "three")])
    async with guarded(nats_url, policy=At("output", at_output)) as guard:
        await release(guard.agent(client).run("hello", stream=True), released)

    assert released_before_a_verdict == [0]
    assert "".join(released) == "one two three"


async def test_a_transformed_stream_releases_only_the_transformed_text(nats_url: str) -> None:
    hidden = replacing("$target.content", "the pin is ****")
    client = ScriptedChatClient([says("the pin ", "is 4711")])
    async with guarded(nats_url, redactor=At("output", hidden)) as guard:
        stream = guard.agent(client).run("hello", stream=True)
        released = [update.text async for update in stream]
        final = await stream.get_final_response()

    assert "".join(released) == final.text == "the pin is ****"


async def test_a_tool_called_in_a_stream_waits_for_its_own_verdict(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "first"}), says("I may ", "not.")])
    bookings = Bookings()
    async with guarded(nats_url, policy=At("pre_tool_call", Verdict.deny(reason="needs_manager"))) as guard:
        released = [u.text async for u in guard.agent(client, [bookings.tool]).run("book", stream=True)]

    assert bookings.made == []
    assert "".join(released).endswith("I may not.")
    assert "needs_manager" in client.read_results()[0]
