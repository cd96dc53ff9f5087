"""A model that is a script, and an interceptor that answers by rule and remembers what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio.lowlevel
from agent_hooks import AgentContext, InterceptionEmitter, Verdict

from hookbus_client import BusEmitter
from hookbus_client.agent import Agent, Chunk, ModelResponse, StreamEnd, TextChunk, ToolCall

Answer = Verdict | dict[str, Any] | Callable[[AgentContext], Any]


def says(text: Any, *, finish_reason: str = "stop") -> ModelResponse:
    return ModelResponse(text, (), finish_reason)


def calls(*asked: tuple[str, dict[str, Any]] | ToolCall, content: Any = None) -> ModelResponse:
    made = tuple(
        each if isinstance(each, ToolCall) else ToolCall(f"call-{number}", *each)
        for number, each in enumerate(asked)
    )
    return ModelResponse(content, made, "tool_calls")


class ScriptedModel:
    """Answers with *responses* in turn; ``asked`` holds the messages and ``offered`` the tools of each call."""

    id = "scripted"

    def __init__(self, *responses: ModelResponse) -> None:
        self._responses = iter(responses)
        self.asked: list[list[dict[str, Any]]] = []
        self.offered: list[list[dict[str, Any]]] = []

    async def complete(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> ModelResponse:
        self.asked.append(list(messages))
        self.offered.append(list(tools))
        return next(self._responses)

    async def stream(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> AsyncIterator[Chunk]:
        response = await self.complete(messages, tools)
        for word in (response.content or "").split(" "):
            yield TextChunk(word)
        yield StreamEnd(response.finish_reason, response.tool_calls, response.usage)


class ChunkedModel(ScriptedModel):
    """Streams *chunks* as they are, the exceptions among them raised, and notes when it is closed."""

    def __init__(self, *chunks: Chunk | Exception) -> None:
        super().__init__()
        self._chunks = chunks
        self.sent = 0
        self.closed = False

    async def stream(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]
    ) -> AsyncIterator[Chunk]:
        try:
            for chunk in self._chunks:
                if isinstance(chunk, Exception):
                    raise chunk
                self.sent += 1
                yield chunk
        finally:
            self.closed = True


class Rules:
    """An interceptor that answers at a point by *rules* and allows elsewhere; ``seen`` holds every context."""

    def __init__(self, **rules: Answer) -> None:
        self._rules = rules
        self.seen: list[AgentContext] = []

    async def intercept(self, context: AgentContext) -> Any:
        await anyio.lowlevel.checkpoint()  # as anything that asks elsewhere does
        self.seen.append(context)
        answer = self._rules.get(context["interception_point"], Verdict.allow())
        return answer(context) if callable(answer) else answer

    @property
    def points(self) -> list[str]:
        return [context["interception_point"] for context in self.seen]

    def at(self, point: str) -> list[AgentContext]:
        return [context for context in self.seen if context["interception_point"] == point]


def transform(path: str, value: Any) -> dict[str, Any]:
    return {"decision": "transform", "transform": {"path": path, "value": value}}


def emitter(*interceptors: Any, **settings: Any) -> BusEmitter:
    made = BusEmitter(**settings)
    for interceptor in interceptors:
        made.register(interceptor)
    return made


def sdk_emitter(*interceptors: Any, **settings: Any) -> InterceptionEmitter:
    made = InterceptionEmitter(**settings)
    for interceptor in interceptors:
        made.register(interceptor)
    return made


def agent(model: Any, *interceptors: Any, **options: Any) -> Agent:
    """An agent under an emitter of its own, in which *interceptors* are registered in this process."""
    return Agent(model, emitter(*interceptors), agent_id="desk", **options)


class Opaque:
    """Has no JSON form; would show its content in a repr."""

    def __repr__(self) -> str:
        return "SECRET"
