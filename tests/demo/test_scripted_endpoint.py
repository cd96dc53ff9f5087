"""The scripted endpoint, as the real ``openai`` client meets it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from hookbus_client.demo.scripted_endpoint import Message, Reply, Script, Tool, ToolCall, scripted_endpoint

pytestmark = pytest.mark.anyio

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Where to?"}]
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "find", "description": "Finds.", "parameters": {"type": "object", "properties": {}}},
}
TWO_CALLS = Reply(
    content="Looking in both places at once.",
    tool_calls=[
        ToolCall("find", {"to": "Mar del Plata", "people": 2}),
        ToolCall("find", {"to": "Bahía Blanca"}),
    ],
)


@asynccontextmanager
async def client_of(script: Script) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        scripted_endpoint({"scripted": script}) as base_url,
        openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client,
    ):
        yield client


def says(reply: Reply) -> Script:
    return lambda messages, tools: reply


async def test_a_reply_of_text_arrives_whole_with_its_usage() -> None:
    async with client_of(says(Reply("To the sea."))) as client:
        completion = await client.chat.completions.create(model="scripted", messages=QUESTION)
    assert completion.choices[0].message.content == "To the sea."
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    assert completion.usage.prompt_tokens > 0


async def test_several_tool_calls_travel_in_one_message() -> None:
    async with client_of(says(TWO_CALLS)) as client:
        completion = await client.chat.completions.create(model="scripted", messages=QUESTION, tools=[TOOL])
    [choice] = completion.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls or []
    assert [call.type for call in calls] == ["function", "function"]
    assert [json.loads(call.function.arguments) for call in calls if call.type == "function"] == [
        {"to": "Mar del Plata", "people": 2},
        {"to": "Bahía Blanca"},
    ]
    assert len({call.id for call in calls}) == 2


async def test_a_stream_carries_the_same_reply_in_pieces() -> None:
    async with client_of(says(TWO_CALLS)) as client:
        stream = await client.chat.completions.create(
            model="scripted",
            messages=QUESTION,
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
        )
        text, names, arguments, finish, usage = "", dict[int, str](), dict[int, str](), [], None
        pieces = 0
        async for chunk in stream:
            pieces += 1
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish += [choice.finish_reason] if choice.finish_reason else []
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    names[call.index] = names.get(call.index, "") + (call.function.name or "")
                    arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    assert text == TWO_CALLS.content
    assert names == {0: "find", 1: "find"}
    assert [json.loads(arguments[index]) for index in (0, 1)] == [
        dict(call.arguments) for call in TWO_CALLS.tool_calls
    ]
    assert finish == ["tool_calls"]
    assert usage is not None
    assert pieces > 6


async def test_the_clients_own_stream_assembly_accepts_the_stream() -> None:
    async with (
        client_of(says(TWO_CALLS)) as client,
        client.chat.completions.stream(model="scripted", messages=QUESTION) as stream,
    ):
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == TWO_CALLS.content
    assert [call.function.name for call in completion.choices[0].message.tool_calls or []] == ["find", "find"]


async def test_the_script_reads_the_conversation_and_the_tools() -> None:
    seen: list[tuple[Sequence[Message], Sequence[Tool]]] = []

    def script(messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        seen.append((messages, tools))
        last = messages[-1]
        return Reply(last.text) if last.role == "tool" else TWO_CALLS

    async with client_of(script) as client:
        first = await client.chat.completions.create(model="scripted", messages=QUESTION, tools=[TOOL])
        answered = first.choices[0].message
        assert answered.tool_calls
        second = await client.chat.completions.create(
            model="scripted",
            messages=[
                *QUESTION,
                answered.model_dump(exclude_none=True),  # type: ignore[list-item]  # the client's own advice
                {
                    "role": "tool",
                    "tool_call_id": answered.tool_calls[0].id,
                    "content": [{"type": "text", "text": "Refused: "}, {"type": "text", "text": "because."}],
                },
            ],
        )
    assert second.choices[0].message.content == "Refused: because."
    (_, tools), (messages, no_tools) = seen
    assert [tool.function.name for tool in tools] == ["find"]
    assert list(no_tools) == []
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert messages[1].calls[0].arguments == {"to": "Mar del Plata", "people": 2}
    assert messages[2].tool_call_id == messages[1].calls[0].id


async def test_each_model_name_has_its_own_script_and_an_unknown_one_is_not_found() -> None:
    scripts = {"north": says(Reply("Jujuy")), "south": says(Reply("Ushuaia"))}
    async with (
        scripted_endpoint(scripts) as base_url,
        openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client,
    ):
        for model, place in ("south", "Ushuaia"), ("north", "Jujuy"):
            completion = await client.chat.completions.create(model=model, messages=QUESTION)
            assert completion.choices[0].message.content == place
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="east", messages=QUESTION)
        with pytest.raises(openai.NotFoundError):
            await client.models.list()
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="north", messages=5)  # type: ignore[call-overload]  # on purpose


async def test_leaving_the_context_ends_the_endpoint() -> None:
    async with scripted_endpoint({"scripted": says(Reply("still here"))}) as base_url:
        pass
    async with openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.APIConnectionError):
            await client.chat.completions.create(model="scripted", messages=QUESTION)


async def test_a_script_that_raises_ends_the_program_not_the_answer() -> None:
    def mistaken(messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as raised:
        async with client_of(mistaken) as client:
            await client.chat.completions.create(model="scripted", messages=QUESTION)
    # Beside it may stand the client's own surprise at the closed connection.
    assert raised.value.subgroup(ZeroDivisionError) is not None
