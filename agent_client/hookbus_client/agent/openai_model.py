"""The model seam on the ``openai`` client: any endpoint that speaks chat completions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookbus_client.agent.boundary import provider_errors
from hookbus_client.agent.errors import ModelFailed, StreamTruncated
from hookbus_client.agent.model import Chunk, ModelResponse, StreamEnd, TextChunk, ToolCall, parse_arguments

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint.

    *params* go with every request (``temperature=0``, ``stream_options={...}``, …). The client
    is shared, never changed. Of a response only the first choice is read, and of its message only
    the text (or the refusal) and the tool calls: what no interceptor sees does not enter the
    conversation. Tools that the provider ran itself become hosted calls: tool calls of a type
    other than ``function`` and ``custom``, the ``executed_tools`` of endpoints that report them,
    and the citations of a web search.
    """

    def __init__(self, client: AsyncOpenAI, model: str, **params: Any) -> None:
        self.client = client
        self.id = model
        self._params = params

    def _request(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.id, "messages": list(messages), **self._params}
        if tools:
            request["tools"] = list(tools)
        return request

    async def complete(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelResponse:
        """Return one complete response. Raises :class:`ModelFailed`."""
        with provider_errors():
            completion = await self.client.chat.completions.create(**self._request(messages, tools))
            body = _plain(completion)
        if not body.get("choices"):
            raise ModelFailed("no choices")
        choice = body["choices"][0]
        message = choice.get("message") or {}
        calls = tuple(_call(raw) for raw in message.get("tool_calls") or ())
        return ModelResponse(
            content=_text(message),
            tool_calls=calls + _hosted(message),
            finish_reason=choice.get("finish_reason") or "stop",
            usage=_usage(body.get("usage")),
        )

    async def stream(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> AsyncGenerator[Chunk, None]:
        """Yield text as it arrives, then the end. Raises :class:`ModelFailed` or :class:`StreamTruncated`."""
        ending = _Ending()
        async with aclosing(self._bodies(messages, tools)) as bodies:
            async for body in bodies:
                text = ending.add(body)
                if text:
                    yield TextChunk(text)
        yield ending.close()

    async def _bodies(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> AsyncGenerator[dict[str, Any], None]:
        with provider_errors():
            request = self._request(messages, tools)
            async with await self.client.chat.completions.create(**request, stream=True) as chunks:
                async for chunk in chunks:
                    yield _plain(chunk)


@dataclass(slots=True)
class _Fragment:
    """A tool call that arrives in pieces."""

    id: str = ""
    type: str = "function"
    name: str = ""
    arguments: str = ""

    def add(self, delta: dict[str, Any]) -> None:
        part = delta.get("function") or delta.get("custom") or {}
        self.id = delta.get("id") or self.id
        self.type = delta.get("type") or self.type
        self.name += part.get("name") or ""
        self.arguments += part.get("arguments") or part.get("input") or ""

    def whole(self) -> ToolCall:
        function = {"name": self.name, "arguments": self.arguments}
        return _call({"id": self.id, "type": self.type, "function": function})


class _Ending:
    """Everything of a stream but its text."""

    def __init__(self) -> None:
        self._fragments: dict[int, _Fragment] = {}
        self._hosted: tuple[ToolCall, ...] = ()
        self._finish_reason: str | None = None
        self._usage: dict[str, int] | None = None

    def add(self, body: dict[str, Any]) -> str:
        """Take one chunk in and return its text."""
        self._usage = _usage(body.get("usage")) or self._usage
        if not body.get("choices"):
            return ""
        choice = body["choices"][0]
        delta = choice.get("delta") or {}
        for position, piece in enumerate(delta.get("tool_calls") or ()):
            index = piece.get("index")
            self._fragments.setdefault(position if index is None else index, _Fragment()).add(piece)
        self._hosted += _hosted(delta)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return _text(delta) or ""

    def close(self) -> StreamEnd:
        if self._finish_reason is None:
            raise StreamTruncated
        calls = tuple(self._fragments[index].whole() for index in sorted(self._fragments))
        return StreamEnd(self._finish_reason, calls + self._hosted, self._usage)


def _plain(answer: Any) -> dict[str, Any]:
    # Without pydantic's warnings: endpoints stray from the declared types, and a warning quotes the content.
    body: dict[str, Any] = answer.model_dump(warnings=False)
    return body


def _text(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    return message.get("refusal") if content is None else content


def _call(raw: dict[str, Any]) -> ToolCall:
    kind = raw.get("type") or "function"
    part = raw.get(kind) or raw.get("function") or {}
    args, unparsed = parse_arguments(part.get("arguments") or part.get("input"))
    return ToolCall(
        id=raw.get("id") or "",
        name=part.get("name") or raw.get("name") or kind,
        args=args,
        unparsed=unparsed,
        hosted=kind not in ("function", "custom"),
    )


def _hosted(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    """Return what the provider reports that it ran, with what it reports about it."""
    calls = [
        ToolCall(id="", name=str(raw.get("name") or raw.get("type") or "hosted_tool"), args=raw, hosted=True)
        for raw in message.get("executed_tools") or ()
    ]
    if message.get("annotations"):
        args = {"annotations": message["annotations"]}
        calls.append(ToolCall(id="", name="web_search", args=args, hosted=True))
    return tuple(calls)


def _usage(raw: dict[str, Any] | None) -> dict[str, int] | None:
    if not raw:
        return None
    known = {name: raw.get(name) for name in ("prompt_tokens", "completion_tokens")}
    return {name: count for name, count in known.items() if isinstance(count, int)} or None
