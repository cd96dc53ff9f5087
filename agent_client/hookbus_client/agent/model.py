"""The model seam: what a model is asked, and what it answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hookbus_client.agent.errors import StreamTruncated

#: Marks a tool call that the provider ran itself, in ``response.tool_calls``.
EXECUTED_BY = "executed_by"
PROVIDER = "provider"
#: Holds arguments that are not one JSON object, as the model wrote them.
UNPARSED = "unparsed_arguments"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in a model's response.

    ``hosted``: the provider has run it already; it is visible in ``post_model_call`` and never
    executed here. ``unparsed`` holds arguments that were not one JSON object; such a call never
    runs either.
    """

    id: str
    name: str
    args: dict[str, Any] = field(default_factory=dict)
    unparsed: str | None = None
    hosted: bool = False

    def to_context(self) -> dict[str, Any]:
        """Return the call as ``response.tool_calls`` carries it (§4.2)."""
        out: dict[str, Any] = {"id": self.id, "name": self.name, "args": self.args}
        if self.unparsed is not None:
            out[UNPARSED] = self.unparsed
        if self.hosted:
            out[EXECUTED_BY] = PROVIDER
        return out

    def to_message(self) -> dict[str, Any]:
        """Return the call as an assistant message carries it."""
        arguments = json.dumps(self.args, ensure_ascii=False)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """A complete response."""

    content: Any
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: dict[str, int] | None = None

    @property
    def local_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are ours to execute."""
        return tuple(call for call in self.tool_calls if not call.hosted)

    def to_fields(self) -> dict[str, Any]:
        """Return the response as the fields of ``post_model_call`` (§4.2)."""
        return {
            "content": self.content,
            "tool_calls": [call.to_context() for call in self.tool_calls],
            "finish_reason": self.finish_reason,
            "usage": self.usage,
        }

    def to_message(self) -> dict[str, Any]:
        """Return the response as the assistant message of the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.local_calls:
            message["tool_calls"] = [call.to_message() for call in self.local_calls]
        return message


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of text as it arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The proper end of a stream: everything but the text. A stream without one was truncated."""

    finish_reason: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: dict[str, int] | None = None


Chunk = TextChunk | StreamEnd


class Model(Protocol):
    """A model, asked with chat completions messages and tools.

    Both methods raise :class:`~hookbus_client.agent.ModelFailed` when the call fails. Neither is
    asked before ``pre_model_call`` permits; both may be cancelled at any await.
    """

    @property
    def id(self) -> str:
        """The model's name, as ``model.id`` carries it."""
        ...

    async def complete(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelResponse:
        """Return one complete response."""
        ...

    def stream(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> AsyncIterator[Chunk]:
        """Yield the response as it arrives, a :class:`StreamEnd` last."""
        ...


async def assemble(chunks: AsyncIterator[Chunk]) -> ModelResponse:
    """Return the complete response of a stream (§12.1). Raises :class:`StreamTruncated`."""
    texts: list[str] = []
    async for chunk in chunks:
        if isinstance(chunk, StreamEnd):
            return ended("".join(texts), chunk)
        texts.append(chunk.text)
    raise StreamTruncated


def ended(text: str, end: StreamEnd) -> ModelResponse:
    """Return the response that *text* and *end* make."""
    content = None if not text and end.tool_calls else text
    return ModelResponse(content, end.tool_calls, end.finish_reason, end.usage)


def parse_arguments(text: str | None) -> tuple[dict[str, Any], str | None]:
    """Return ``(args, None)``, or ``({}, text)`` when *text* is not one plain JSON object.

    Repeated members and NaN are refused: what is judged must be what runs. No text at all is no
    arguments.
    """
    if not text or not text.strip():
        return {}, None
    try:
        args = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return {}, text
    return (args, None) if isinstance(args, dict) else ({}, text)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is repeated")
    return members


def effective_response(target: Any, original: ModelResponse) -> ModelResponse | None:
    """Return the response that a verdict left in *target*, or None when it is not one.

    Whatever a transform made of its marks, a call that the provider has run stays hosted, and
    one without readable arguments does not become a call without arguments.
    """
    if not isinstance(target, dict) or not isinstance(target.get("tool_calls"), list):
        return None
    originals = {call.id: call for call in original.tool_calls}
    calls = [_effective_call(call, originals) for call in target["tool_calls"]]
    kept = tuple(call for call in calls if call is not None)
    if len(kept) != len(calls) or len({call.id for call in kept}) != len(kept):
        return None
    reason = target.get("finish_reason")
    return ModelResponse(
        content=target.get("content"),
        tool_calls=kept,
        finish_reason=reason if isinstance(reason, str) else original.finish_reason,
        usage=original.usage,
    )


def _effective_call(call: Any, originals: Mapping[str, ToolCall]) -> ToolCall | None:
    if not isinstance(call, dict) or not isinstance(call.get("args"), dict):
        return None
    call_id, name, args, unparsed = call.get("id"), call.get("name"), call["args"], call.get(UNPARSED)
    if not (isinstance(call_id, str) and call_id and isinstance(name, str) and name):
        return None
    original = originals.get(call_id)
    if unparsed is None and original is not None and not args:
        unparsed = original.unparsed
    return ToolCall(
        id=call_id,
        name=name,
        args=args,
        unparsed=unparsed if isinstance(unparsed, str) else None,
        hosted=call.get(EXECUTED_BY) == PROVIDER or (original is not None and original.hosted),
    )


def with_distinct_ids(response: ModelResponse) -> ModelResponse:
    """Return *response* with an id of its own on every call; some endpoints leave them out or repeat them."""
    seen: set[str] = set()
    calls: list[ToolCall] = []
    for call in response.tool_calls:
        if not call.id or call.id in seen:
            call = replace(call, id=f"call-{uuid.uuid4().hex}")
        seen.add(call.id)
        calls.append(call)
    return replace(response, tool_calls=tuple(calls))
