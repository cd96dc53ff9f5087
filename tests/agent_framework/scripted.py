"""A chat client that says what a script says, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)


@dataclass(frozen=True)
class Reply:
    """One answer of the model; a streaming client releases one update per content."""

    contents: Sequence[Content]
    finish_reason: str = "stop"


def says(*chunks: str) -> Reply:
    """A reply of text alone; streamed, each chunk is an update of its own."""
    return Reply([Content.from_text(chunk) for chunk in chunks])


def calls(name: str, arguments: Mapping[str, Any], *, call_id: str = "call-1", text: str | None = None) -> Reply:
    """A reply that asks for one tool, with *text* before the call when there is any."""
    call = Content.from_function_call(call_id, name, arguments=dict(arguments))
    return Reply([*([Content.from_text(text)] if text else []), call], "tool_calls")


class ScriptedChatClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """The Nth call gets the Nth reply; a call past the script is a failed test.

    ``requests`` holds the messages of every call as the model would have read them.
    """

    def __init__(self, replies: Iterable[Reply]) -> None:
        super().__init__(middleware=[])
        self._replies = iter(replies)
        self.requests: list[list[Message]] = []
        self.streamed = 0

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        if stream:
            return ResponseStream(self._updates(messages), finalizer=ChatResponse.from_updates)
        return self._response(messages)

    async def _response(self, messages: Sequence[Message]) -> ChatResponse:
        reply = self._next(messages)
        return ChatResponse(
            messages=[Message("assistant", list(reply.contents))],
            finish_reason=reply.finish_reason,
            response_id=f"response-{len(self.requests)}",
        )

    async def _updates(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        reply = self._next(messages)
        for content in reply.contents:
            self.streamed += 1
            yield ChatResponseUpdate(contents=[content], role="assistant", message_id=f"m-{len(self.requests)}")
        yield ChatResponseUpdate(finish_reason=reply.finish_reason, role="assistant")

    def _next(self, messages: Sequence[Message]) -> Reply:
        self.requests.append(list(messages))
        reply = next(self._replies, None)
        assert reply is not None, f"the model was called {len(self.requests)} times, more than its script"
        return reply

    def read_results(self) -> list[Any]:
        """What the model read, in its last call, as results of tools."""
        return [c.result for m in self.requests[-1] for c in m.contents if c.type == "function_result"]
