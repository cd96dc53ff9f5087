"""The chat-completions wire as a server sees it: requests read, replies rendered whole or in pieces.

Only what a scripted model needs of the protocol: text, function tools and calls, usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

_CHARACTERS_PER_TOKEN = 4
_PIECE_CHARACTERS = 12


class ContentPart(msgspec.Struct, frozen=True):
    """One part of a message whose content is a list; only text parts count."""

    type: str
    text: str = ""


class FunctionCall(msgspec.Struct, frozen=True):
    """The function that a past message called; ``arguments`` is JSON text, as the protocol has it."""

    name: str
    arguments: str


class PastCall(msgspec.Struct, frozen=True):
    """A tool call in a past assistant message."""

    id: str
    function: FunctionCall

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as values; raises :class:`msgspec.DecodeError` when they are not a JSON object."""
        return msgspec.json.decode(self.function.arguments, type=dict[str, Any])


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation so far, as the model is given it."""

    role: str
    content: str | list[ContentPart] | None = None
    tool_calls: list[PastCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text of the message, parts joined; empty when there is none."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def calls(self) -> list[PastCall]:
        """The tool calls that the message asks for, possibly none."""
        return self.tool_calls or []


class ToolFunction(msgspec.Struct, frozen=True):
    """What the model is told about one tool; ``parameters`` is its JSON schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Tool(msgspec.Struct, frozen=True):
    """One tool on offer."""

    function: ToolFunction


class StreamOptions(msgspec.Struct, frozen=True):
    """Whether a stream ends with a chunk that carries the usage."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request; members that a script has no use for are ignored."""

    model: str
    messages: list[Message]
    tools: list[Tool] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the scripted model asks for."""

    name: str
    arguments: Mapping[str, Any]


class Reply(msgspec.Struct, frozen=True):
    """What the scripted model says: text, or tool calls (several run as one step), or both."""

    content: str | None = None
    tool_calls: Sequence[ToolCall] = ()

    @property
    def finish_reason(self) -> str:
        """``tool_calls`` when the model waits for results, else ``stop``."""
        return "tool_calls" if self.tool_calls else "stop"


def usage_of(request: ChatRequest, reply: Reply) -> dict[str, int]:
    """Return the usage block; a token is four characters here, rounded up."""
    prompt = _tokens(request.messages)
    completion = _tokens(reply)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def completion(request: ChatRequest, reply: Reply, *, number: int) -> dict[str, Any]:
    """Return the whole answer as one ``chat.completion`` object; *number* makes its ids unique."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": _call_id(number, index),
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for index, call in enumerate(reply.tool_calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason, "logprobs": None}
    return {
        **_head(request, number, "chat.completion"),
        "choices": [choice],
        "usage": usage_of(request, reply),
    }


def chunks(request: ChatRequest, reply: Reply, *, number: int) -> Iterator[dict[str, Any]]:
    """Yield the same answer as ``chat.completion.chunk`` objects, text and arguments in small pieces.

    The usage comes last, in a chunk without choices, and only when the request asks for it.
    """
    head = _head(request, number, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    yield chunk({"role": "assistant", "content": "" if reply.content is not None else None})
    for piece in _pieces(reply.content or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(reply.tool_calls):
        opening = {"name": call.name, "arguments": ""}
        identity = {"index": index, "id": _call_id(number, index), "type": "function"}
        yield chunk({"tool_calls": [{**identity, "function": opening}]})
        for piece in _pieces(_arguments(call)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, reply.finish_reason)
    if request.stream_options is not None and request.stream_options.include_usage:
        yield {**head, "choices": [], "usage": usage_of(request, reply)}


def _head(request: ChatRequest, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": request.model}


def _call_id(number: int, index: int) -> str:
    return f"call_{number}_{index}"


def _arguments(call: ToolCall) -> str:
    return msgspec.json.encode(call.arguments).decode()


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE_CHARACTERS):
        yield text[start : start + _PIECE_CHARACTERS]


def _tokens(value: object) -> int:
    return -(-len(msgspec.json.encode(value)) // _CHARACTERS_PER_TOKEN)
