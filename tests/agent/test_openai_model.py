"""The model seam on the real ``openai`` client, against an endpoint that is a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from agent_hooks import InterceptionBlocked, Verdict
from openai import AsyncOpenAI, OpenAIError

from hookbus_client.agent import (
    ModelFailed,
    ModelResponse,
    OpenAIModel,
    StreamEnd,
    StreamTruncated,
    TextChunk,
    ToolCall,
)

from .scripted import Rules, agent

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
ASK = [{"role": "user", "content": "Hello"}]


class Endpoint:
    """Answers each request with the next of *answers*; ``requests`` holds the decoded bodies."""

    def __init__(self, *answers: httpx2.Response | Callable[[], httpx2.Response]) -> None:
        self._answers = iter(answers)
        self.requests: list[dict[str, Any]] = []

    def model(self, **params: Any) -> OpenAIModel:
        transport = httpx2.MockTransport(self._answer)
        client = AsyncOpenAI(
            api_key="none",
            base_url="http://model.test/v1",
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=transport),
        )
        return OpenAIModel(client, "small", **params)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/v1/chat/completions"
        self.requests.append(json.loads(request.content))
        answer = next(self._answers)
        return answer() if callable(answer) else answer


def completion(message: dict[str, Any], finish_reason: str = "stop") -> httpx2.Response:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    return httpx2.Response(200, json={**_head("chat.completion"), "choices": [choice], "usage": USAGE})


def sse(*deltas: dict[str, Any], finish_reason: str | None = "stop", done: bool = True) -> httpx2.Response:
    def events() -> Iterator[str]:
        for delta in deltas:
            yield _event({"index": 0, "delta": delta, "finish_reason": None})
        if finish_reason is not None:
            yield _event({"index": 0, "delta": {}, "finish_reason": finish_reason})
        if done:
            yield f"data: {json.dumps({**_head('chat.completion.chunk'), 'choices': [], 'usage': USAGE})}\n\n"
            yield "data: [DONE]\n\n"

    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content="".join(events()).encode())


def _event(choice: dict[str, Any]) -> str:
    return f"data: {json.dumps({**_head('chat.completion.chunk'), 'choices': [choice]})}\n\n"


def _head(kind: str) -> dict[str, Any]:
    return {"id": "c-1", "object": kind, "created": 1, "model": "small"}


def call(call_id: str, name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


async def streamed(model: OpenAIModel) -> list[Any]:
    return [chunk async for chunk in model.stream(ASK, [])]


async def test_a_completion_is_one_response() -> None:
    endpoint = Endpoint(completion({"content": "Hi."}))
    response = await endpoint.model(temperature=0).complete(ASK, [])
    assert response == ModelResponse("Hi.", (), "stop", {"prompt_tokens": 7, "completion_tokens": 3})
    assert endpoint.requests == [{"model": "small", "messages": ASK, "temperature": 0}]


@pytest.mark.parametrize(
    ("arguments", "args", "unparsed"),
    [
        ('{"to": "Mar del Plata"}', {"to": "Mar del Plata"}, None),
        ("", {}, None),
        ("{}", {}, None),
        ('{"to": ', {}, '{"to": '),
        ("[1]", {}, "[1]"),
        ("null", {}, "null"),
        ('{"a": 1, "a": 2}', {}, '{"a": 1, "a": 2}'),
        ('{"a": NaN}', {}, '{"a": NaN}'),
    ],
)
async def test_arguments_are_one_plain_object_or_unparsed(arguments: str, args: Any, unparsed: Any) -> None:
    endpoint = Endpoint(completion({"content": None, "tool_calls": [call("c", "f", arguments)]}, "tool_calls"))
    response = await endpoint.model().complete(ASK, [])
    assert response.tool_calls == (ToolCall("c", "f", args, unparsed),)


async def test_what_the_provider_ran_itself_is_hosted() -> None:
    message = {
        "content": "Sunny.",
        "tool_calls": [{"id": "m-1", "type": "mcp", "mcp": {"name": "weather", "arguments": '{"at": "MdQ"}'}}],
        "executed_tools": [{"index": 0, "type": "python", "arguments": "1+1", "output": "2"}],
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"url": "https://x.test", "title": "t", "start_index": 0, "end_index": 1},
            }
        ],
    }
    response = await Endpoint(completion(message)).model().complete(ASK, [])
    assert [(c.name, c.hosted) for c in response.tool_calls] == [
        ("weather", True),
        ("python", True),
        ("web_search", True),
    ]
    assert response.tool_calls[1].args["output"] == "2"
    assert response.local_calls == ()


async def test_a_refusal_is_the_content() -> None:
    endpoint = Endpoint(completion({"content": None, "refusal": "I cannot."}))
    assert (await endpoint.model().complete(ASK, [])).content == "I cannot."


async def test_a_stream_yields_text_as_it_arrives_and_the_rest_at_its_end() -> None:
    endpoint = Endpoint(sse({"role": "assistant", "content": ""}, {"content": "Hi"}, {"content": " there."}))
    assert await streamed(endpoint.model()) == [
        TextChunk("Hi"),
        TextChunk(" there."),
        StreamEnd("stop", (), {"prompt_tokens": 7, "completion_tokens": 3}),
    ]
    assert endpoint.requests[0]["stream"] is True


async def test_tool_calls_of_a_stream_are_assembled_from_their_pieces() -> None:
    deltas = [
        {"tool_calls": [call("c-0", "find", "", index=0)]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"to": '}}]},
        {"tool_calls": [call("c-1", "book", '{"se', index=1)]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"MdQ"}'}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": 'at": 4}'}}]},
    ]
    (end,) = await streamed(Endpoint(sse(*deltas, finish_reason="tool_calls")).model())
    assert end.finish_reason == "tool_calls"
    assert end.tool_calls == (ToolCall("c-0", "find", {"to": "MdQ"}), ToolCall("c-1", "book", {"seat": 4}))


async def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    with pytest.raises(StreamTruncated):
        await streamed(Endpoint(sse({"content": "half of"}, finish_reason=None, done=False)).model())


async def test_a_failed_request_is_a_failed_model_call_with_its_cause_and_without_its_body() -> None:
    for request in (lambda model: model.complete(ASK, []), streamed):
        endpoint = Endpoint(httpx2.Response(429, json={"error": {"message": "SECRET"}}))
        with pytest.raises(ModelFailed, match="RateLimitError") as failed:
            await request(endpoint.model())
        assert "SECRET" not in str(failed.value)
        assert isinstance(failed.value.__cause__, OpenAIError)


async def test_a_connection_that_breaks_in_mid_stream_is_a_failed_model_call() -> None:
    class Breaking(httpx2.AsyncByteStream):
        async def __aiter__(self) -> Any:
            yield _event({"index": 0, "delta": {"content": "half"}, "finish_reason": None}).encode()
            raise httpx2.ReadError("gone")

    broken = httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Breaking())
    chunks = Endpoint(broken).model().stream(ASK, [])
    assert await anext(chunks) == TextChunk("half")
    with pytest.raises(ModelFailed, match="the model call failed"):
        await anext(chunks)


async def test_no_choices_is_a_failed_model_call() -> None:
    empty = httpx2.Response(200, json={**_head("chat.completion"), "choices": []})
    with pytest.raises(ModelFailed, match="no choices"):
        await Endpoint(empty).model().complete(ASK, [])


def book(seat: str) -> str:
    """Book a seat."""
    return f"booked {seat}"


async def test_an_agent_speaks_chat_completions_from_end_to_end() -> None:
    endpoint = Endpoint(
        completion({"content": None, "tool_calls": [call("c-0", "book", '{"seat": "12A"}')]}, "tool_calls"),
        completion({"content": "Booked."}),
    )
    result = await agent(endpoint.model(), Rules(), tools=[book], instructions="Be brief.").run("Book 12A")
    assert result.output == "Booked."
    assert result.usage == {"prompt_tokens": 14, "completion_tokens": 6}
    first, second = endpoint.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["book"]
    assert second["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Book 12A"},
        {"role": "assistant", "content": None, "tool_calls": [call("c-0", "book", '{"seat": "12A"}')]},
        {"role": "tool", "tool_call_id": "c-0", "content": "booked 12A"},
    ]


async def test_a_denied_pre_model_call_sends_nothing() -> None:
    endpoint = Endpoint(completion({"content": "Hi."}))
    with pytest.raises(InterceptionBlocked):
        await agent(endpoint.model(), Rules(pre_model_call=Verdict.deny(reason="no"))).run("Hello")
    assert endpoint.requests == []


@pytest.mark.parametrize("streaming", ["buffered", "incremental"])
async def test_an_agent_streams_from_end_to_end(streaming: Any) -> None:
    deltas = [
        {"tool_calls": [call("c-0", "book", '{"seat"', index=0)]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ': "12A"}'}}]},
    ]
    endpoint = Endpoint(sse(*deltas, finish_reason="tool_calls"), sse({"content": "Booked"}, {"content": " 12A."}))
    rules = Rules()
    stream = agent(endpoint.model(), rules, tools=[book], streaming=streaming).stream("Book")
    released = [text async for text in stream]
    assert released == (["Booked 12A."] if streaming == "buffered" else ["Booked", " 12A."])
    assert stream.result.output == "Booked 12A."
    assert rules.at("pre_tool_call")[0]["tool_call"]["args"] == {"seat": "12A"}
    assert [c["response"]["finish_reason"] for c in rules.at("post_model_call")] == (
        ["tool_calls", "stop"] if streaming == "buffered" else ["tool_calls", "incremental", "stop"]
    )
