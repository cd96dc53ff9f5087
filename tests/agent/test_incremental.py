"""Incremental mediation: each segment released on its own verdict, and nothing else (§12.1, exception)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import EnforcementMode, InterceptionBlocked, Verdict

from hookbus_client.agent import (
    Agent,
    InMemoryHistory,
    ModelFailed,
    StreamEnd,
    StreamTruncated,
    TextChunk,
    ToolCall,
)
from hookbus_client.agent.agent import Agent as IncrementalAgent

from .scripted import ChunkedModel, Rules, agent, emitter, transform

pytestmark = pytest.mark.anyio

STOP = StreamEnd("stop")


def texts(*pieces: str) -> list[TextChunk]:
    return [TextChunk(piece) for piece in pieces]


def incremental(model: ChunkedModel, rules: Rules, **options: Any) -> IncrementalAgent:
    return agent(model, rules, streaming="incremental", **options)


async def drain(stream: Any) -> tuple[list[str], Exception | None]:
    """Return what was released and what ended the stream."""
    released: list[str] = []
    try:
        async for text in stream:
            released.append(text)
    except (InterceptionBlocked, ModelFailed) as error:
        return released, error
    return released, None


def evaluated(rules: Rules) -> list[tuple[str, str]]:
    return [(c["response"]["content"], c["response"]["finish_reason"]) for c in rules.at("post_model_call")]


async def test_each_chunk_is_judged_as_an_assembled_prefix_and_the_last_has_the_real_finish_reason() -> None:
    rules = Rules()
    stream = incremental(ChunkedModel(*texts("the ", "quick ", "fox"), STOP), rules).stream("Go")
    assert await drain(stream) == (["the ", "quick ", "fox"], None)
    assert evaluated(rules) == [
        ("the ", "incremental"),
        ("the quick ", "incremental"),
        ("the quick fox", "stop"),
    ]
    assert rules.at("output")[0]["output"]["content"] == stream.result.output == "the quick fox"
    assert len({context["request_id"] for context in rules.at("post_model_call")}) == 1


async def test_a_segment_is_released_only_after_its_verdict() -> None:
    released: list[str] = []
    before: list[list[str]] = []
    rules = Rules(post_model_call=lambda context: before.append(list(released)) or Verdict.allow())
    async for text in incremental(ChunkedModel(*texts("a", "b", "c"), STOP), rules).stream("Go"):
        released.append(text)
    assert before == [[], ["a"], ["a", "b"]]


async def test_a_deny_ends_the_stream_withholds_the_rest_and_keeps_it_out_of_the_history() -> None:
    history = InMemoryHistory()
    deny = Verdict.deny(reason="secret")
    rules = Rules(post_model_call=lambda c: deny if "SECRET" in c["response"]["content"] else Verdict.allow())
    model = ChunkedModel(*texts("public, ", "SECRET", " tail", " more"), STOP)
    stream = incremental(model, rules, history=history, durable="model_call").stream("Go")
    released, error = await drain(stream)
    assert released == ["public, "]
    assert isinstance(error, InterceptionBlocked)
    assert "output" not in rules.points
    assert history.messages == []
    assert model.closed
    assert model.sent < 5  # the stream was not read on


@pytest.mark.parametrize("ending", [[], [ModelFailed("ConnectionError")]])
async def test_a_tail_that_nobody_evaluated_fails_closed_in_the_hosts_own_name(ending: list[Exception]) -> None:
    rules, history = Rules(), InMemoryHistory()
    emitting = emitter(rules)
    model = ChunkedModel(*texts("clean, ", "partial tail"), *ending)
    desk = Agent(model, emitting, agent_id="desk", streaming="incremental", history=history)
    released, error = await drain(desk.stream("Go"))
    assert released == ["clean, "]
    assert isinstance(error, InterceptionBlocked)
    assert evaluated(rules) == [("clean, ", "incremental")]
    verdicts = [r.verdict for r in emitting.results if r.interception_point.value == "post_model_call"]
    assert [verdict.reason for verdict in verdicts] == [None, "host_error:streaming_unsupported"]
    assert [record.sequence for record in emitting.results] == list(range(6))
    assert history.messages == []


async def test_a_stream_that_fails_before_any_text_is_a_failed_model_call() -> None:
    for model, expected in ((ChunkedModel(), StreamTruncated), (ChunkedModel(ModelFailed("X")), ModelFailed)):
        released, error = await drain(incremental(model, Rules()).stream("Go"))
        assert released == []
        assert type(error) is expected


async def test_a_transform_of_what_is_not_released_yet_is_what_is_released_and_judged_on() -> None:
    def redact(context: Any) -> Any:
        content = context["response"]["content"]
        if "30.111.222" not in content:
            return Verdict.allow()
        return transform("$target.content", content.replace("30.111.222", "***"))

    rules = Rules(post_model_call=redact)
    stream = incremental(ChunkedModel(*texts("DNI ", "30.111.222", " it is"), STOP), rules).stream("Go")
    assert (await drain(stream))[0] == ["DNI ", "***", " it is"]
    assert evaluated(rules)[-1] == ("DNI *** it is", "stop")
    assert stream.result.output == "DNI *** it is"


async def test_a_transform_of_what_was_released_already_ends_the_stream() -> None:
    def late(context: Any) -> Any:
        content = context["response"]["content"]
        return transform("$target.content", "XX") if content == "ab" else Verdict.allow()

    released, error = await drain(
        incremental(ChunkedModel(*texts("a", "b", "c"), STOP), Rules(post_model_call=late)).stream("Go")
    )
    assert released == ["a"]
    assert isinstance(error, InterceptionBlocked)
    assert error.result.verdict.reason == "host_error:streaming_unsupported"


async def test_tool_calls_come_with_the_last_emission_and_run_after_it() -> None:
    ran: list[str] = []

    def look() -> str:
        ran.append("look")
        return "seen"

    class TwoTurns(ChunkedModel):
        async def stream(self, messages: Any, tools: Any) -> Any:
            if len(messages) > 1:
                yield TextChunk("Done.")
                yield STOP
            else:
                yield TextChunk("Let me ")
                yield TextChunk("look.")
                yield StreamEnd("tool_calls", (ToolCall("c-1", "look"),))

    at_judgement: list[list[str]] = []
    rules = Rules(post_model_call=lambda context: at_judgement.append(list(ran)) or Verdict.allow())
    stream = incremental(TwoTurns(), rules, tools=[look]).stream("Go")
    assert (await drain(stream))[0] == ["Let me ", "look.", "Done."]
    asked = [[call["name"] for call in c["response"]["tool_calls"]] for c in rules.at("post_model_call")]
    assert asked == [[], ["look"], []]
    assert at_judgement == [[], [], ["look"]]
    assert [m["content"] for m in stream.result.messages] == ["Go", "Let me look.", "seen", "Done."]


async def test_a_deny_at_output_returns_nothing_and_persists_nothing_but_cannot_retract() -> None:
    history = InMemoryHistory()
    rules = Rules(output=Verdict.deny(reason="no"))
    stream = incremental(ChunkedModel(*texts("a", "b"), STOP), rules, history=history).stream("Go")
    released, error = await drain(stream)
    assert released == ["a", "b"]
    assert isinstance(error, InterceptionBlocked)
    assert history.messages == []


async def test_evaluate_only_lets_the_raw_text_through() -> None:
    rules = Rules(post_model_call=transform("$target.content", "X"))
    emitting = emitter(rules, mode=EnforcementMode.EVALUATE_ONLY)
    desk = Agent(ChunkedModel(*texts("a", "b"), STOP), emitting, agent_id="desk", streaming="incremental")
    assert (await drain(desk.stream("Go")))[0] == ["a", "b"]


async def test_labels_of_every_segment_stay_with_the_answer() -> None:
    def label(context: Any) -> Any:
        return {"decision": "allow", "result_labels": [context["response"]["finish_reason"]]}

    rules = Rules(post_model_call=label)
    stream = incremental(ChunkedModel(*texts("a", "b"), STOP), rules).stream("Go")
    await drain(stream)
    assert stream.result.labels == ("incremental", "stop")
    assert rules.at("output")[0]["extensions"]["hookbus"]["source_labels"] == ["incremental", "stop"]


async def test_run_never_streams() -> None:
    rules = Rules()

    class Whole(ChunkedModel):
        async def complete(self, messages: Any, tools: Any) -> Any:
            from hookbus_client.agent import ModelResponse

            return ModelResponse("whole")

    assert (await incremental(Whole(), rules).run("Go")).output == "whole"
    assert evaluated(rules) == [("whole", "stop")]
