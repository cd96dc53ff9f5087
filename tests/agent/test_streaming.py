"""A buffered stream releases nothing before its verdict (§12.1, §12.1a)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import InterceptionBlocked, Verdict

from hookbus_client.agent import SessionMisused, StreamEnd, StreamTruncated, TextChunk

from .scripted import ChunkedModel, Rules, ScriptedModel, agent, calls, says, transform

pytestmark = pytest.mark.anyio


def chunked(*texts: str) -> ChunkedModel:
    return ChunkedModel(*(TextChunk(text) for text in texts), StreamEnd("stop"))


async def test_nothing_is_released_before_the_output_verdict_permits() -> None:
    released: list[str] = []
    at_output: list[list[str]] = []
    rules = Rules(output=lambda context: at_output.append(list(released)) or Verdict.allow())
    stream = agent(chunked("the quick ", "brown fox"), rules).stream("Go")
    async for text in stream:
        released.append(text)
    assert at_output == [[]]
    assert released == ["the quick brown fox"]
    assert stream.result.output == "the quick brown fox"
    (response,) = [context["response"] for context in rules.at("post_model_call")]
    assert response["content"] == "the quick brown fox"
    assert response["finish_reason"] == "stop"


@pytest.mark.parametrize("point", ["post_model_call", "output"])
async def test_a_deny_releases_nothing(point: str) -> None:
    rules = Rules(**{point: Verdict.deny(reason="no")})
    stream = agent(chunked("SEC", "RET"), rules).stream("Go")
    with pytest.raises(InterceptionBlocked):
        await anext(stream)  # the first thing it would release
    with pytest.raises(SessionMisused, match="no result"):
        _ = stream.result
    assert rules.seen[-1]["summary"] == {"reason": "error"}


async def test_what_is_released_is_what_the_verdict_left() -> None:
    rules = Rules(
        post_model_call=transform("$target.content", "DNI ***"), output=transform("$target.content", "No DNI.")
    )
    stream = agent(chunked("DNI ", "30.111.222"), rules).stream("Go")
    assert [text async for text in stream] == ["No DNI."]


async def test_only_the_answer_of_the_last_turn_is_released() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    model = ScriptedModel(calls(("add", {"a": 1, "b": 2}), content="Let me see"), says("It is 3."))
    stream = agent(model, Rules(), tools=[add]).stream("Sum?")
    assert [text async for text in stream] == ["Itis3."]
    assert model.asked[1][-1]["content"] == "3"


async def test_a_truncated_stream_is_a_failed_model_call() -> None:
    rules = Rules()
    stream = agent(ChunkedModel(TextChunk("half of")), rules).stream("Go")
    with pytest.raises(StreamTruncated):
        [text async for text in stream]
    assert rules.points == ["agent_startup", "input", "pre_model_call", "agent_shutdown"]


@pytest.mark.parametrize("streaming", ["buffered", "incremental"])
async def test_a_stream_that_is_left_early_closes_its_session_as_cancelled(streaming: Any) -> None:
    rules, model = Rules(), chunked("a", "b", "c")
    async with agent(model, rules, streaming=streaming).stream("Go") as stream:
        assert await anext(stream)
    assert rules.seen[-1]["summary"] == {"reason": "cancelled"}
    assert model.closed


async def test_a_stream_that_is_never_begun_emits_nothing() -> None:
    rules = Rules()
    await agent(chunked("a"), rules).stream("Go").aclose()
    assert rules.points == []


async def test_a_session_streams_too() -> None:
    rules = Rules()
    async with agent(chunked("a", "b"), rules).session() as session:
        stream = session.stream("Go")
        assert [text async for text in stream] == ["ab"]
    assert stream.result.session_id == session.id
    assert rules.points.count("agent_startup") == 1
