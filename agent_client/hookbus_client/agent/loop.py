"""The loop: one run, from its input to its output."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio
from agent_hooks import InterceptionBlocked, InterceptionPoint, InterceptionRecord

from hookbus_client.agent.calls import ToolCalls
from hookbus_client.agent.definition import Definition, Delivery
from hookbus_client.agent.emissions import Emissions, Passage
from hookbus_client.agent.errors import MaxTurnsExceeded
from hookbus_client.agent.events import EventName
from hookbus_client.agent.history import Entry, History
from hookbus_client.agent.hooks import is_messages
from hookbus_client.agent.labels import Labels, inherited, union
from hookbus_client.agent.model import Chunk, ModelResponse, assemble, effective_response, with_distinct_ids
from hookbus_client.agent.projection import as_text
from hookbus_client.agent.streaming import Mediation

#: How an input's role stands in the conversation.
CHAT_ROLES = {"user": "user", "system": "system", "external": "user"}


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left, as its verdicts permit."""

    output: Any
    #: The run's own chat messages, without the instructions.
    messages: list[dict[str, Any]]
    records: tuple[InterceptionRecord, ...]
    #: Labels of the output and of all it derives from (§5.4).
    labels: Labels
    session_id: str
    turns: int
    finish_reason: str
    usage: dict[str, int]


class Run:
    """One cycle from ``input`` to ``output`` (§3.1). :meth:`segments` drives it; ``result`` is set at its end."""

    def __init__(
        self,
        definition: Definition,
        emissions: Emissions,
        history: History,
        *,
        session_id: str,
        content: Any,
        role: str,
        delivery: Delivery,
    ) -> None:
        self.result: RunResult | None = None
        self._definition = definition
        self._emissions = emissions
        self._history = history
        self._session_id = session_id
        self._content = content
        self._role = role
        self._delivery = delivery
        self._id = uuid.uuid4().hex
        self._past: list[Entry] = []
        self._entries: list[Entry] = []
        self._durable = 0
        self._first_record = len(emissions.records)
        self._usage: dict[str, int] = {}

    async def segments(self) -> AsyncGenerator[str, None]:
        """Run, yielding text as it may be released. Nothing is yielded in ``whole`` delivery.

        Raises :class:`agent_hooks.InterceptionBlocked`, :class:`MaxTurnsExceeded`,
        :class:`ModelFailed`, and whatever a hook or the history raises.
        """
        outcome = "error"
        self._tell("run-start")
        try:
            async with aclosing(self._turns()) as released:
                async for text in released:
                    yield text
            outcome = "completed"
        except InterceptionBlocked:
            outcome = "blocked"
            raise
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            outcome = "cancelled"
            raise
        finally:
            output = {"output": self.result.output} if self.result and outcome == "completed" else {}
            self._tell("run-end", outcome=outcome, **output)

    async def _turns(self) -> AsyncGenerator[str, None]:
        definition, emissions = self._definition, self._emissions
        self._past = list(await self._history.load())
        self._entries.append(await self._input())
        for turn in range(1, definition.max_turns + 1):
            emissions.turn += 1
            await definition.hooks.turn_begins(emissions.turn, self._messages())
            self._tell("turn-start")
            request_id = uuid.uuid4().hex
            answer: Answer | None = None
            async with aclosing(self._ask(request_id)) as released:
                async for item in released:
                    if isinstance(item, Answer):
                        answer = item
                    else:
                        yield item
            assert answer is not None  # _ask ends with an answer or raises
            if not answer.response.local_calls:
                await self._finish(answer, turn)
                if self._delivery == "buffered":
                    assert self.result is not None
                    yield as_text(self.result.output)
                return
            assistant = Entry(answer.response.to_message(), answer.labels)
            self._entries.append(assistant)
            calls = ToolCalls(definition, emissions, self._tell, answer.labels, self._messages())
            self._entries += await calls.execute(answer.response.local_calls, request_id)
            if definition.durable == "model_call":
                await self._persist()
            await self._end_turn(assistant.message)
        raise MaxTurnsExceeded(definition.max_turns)

    async def _input(self) -> Entry:
        point = InterceptionPoint.INPUT
        sources = inherited.get()
        passage = await self._emissions.emit(
            point, self._id, sources=sources, content=self._content, role=self._role
        )
        content = self._content_of(point, passage)
        role = passage.target.get("role") if isinstance(passage.target, dict) else None
        message = {"role": CHAT_ROLES.get(str(role), "user"), "content": content}
        return Entry(message, union(sources, passage.labels))

    def _content_of(self, point: InterceptionPoint, passage: Passage) -> Any:
        if not isinstance(passage.target, dict) or "content" not in passage.target:
            self._emissions.host_failure(point, type(passage.target).__name__)
        return passage.target["content"]

    async def _ask(self, request_id: str) -> AsyncGenerator[str | Answer, None]:
        """Make one model call: text that may be released, then the answer that may be incorporated."""
        definition, emissions = self._definition, self._emissions
        messages = await definition.hooks.messages_to_send(self._messages())
        sources = union(*(entry.labels for entry in self._past + self._entries))
        fields: dict[str, Any] = {"model_id": definition.model.id, "request_id": request_id}
        point = InterceptionPoint.PRE_MODEL_CALL
        passage = await emissions.emit(
            point,
            request_id,
            sources=sources,
            messages=[{"content": None, **message} for message in messages],
            tools=[tool.to_context() for tool in definition.tools.values()] or None,
            **fields,
        )
        if not is_messages(passage.target):
            emissions.host_failure(point, type(passage.target).__name__)
        sent = passage.target
        labels = union(sources, passage.labels)
        self._tell("model-start", messages=sent)
        tools = [tool.to_openai() for tool in definition.tools.values()]

        if self._delivery == "incremental":
            mediation = Mediation(emissions, definition.model.id, request_id, labels)
            async with (
                aclosing(_closable(definition.model.stream(sent, tools))) as chunks,
                aclosing(mediation.segments(chunks)) as released,
            ):
                async for text in released:
                    yield text
            assert mediation.response is not None  # segments() ends with a response or raises
            answer = Answer(mediation.response, mediation.labels)
        else:
            response = with_distinct_ids(await self._whole(sent, tools))
            point = InterceptionPoint.POST_MODEL_CALL
            passage = await emissions.emit(point, request_id, sources=labels, **fields, **response.to_fields())
            effective = effective_response(passage.target, response)
            if effective is None:
                emissions.host_failure(point, type(passage.target).__name__)
            answer = Answer(effective or response, union(labels, passage.labels))
        self._count(answer.response)
        yield answer

    async def _whole(self, sent: list[dict[str, Any]], tools: list[dict[str, Any]]) -> ModelResponse:
        model = self._definition.model
        if self._delivery == "whole":
            return await model.complete(sent, tools)
        async with aclosing(_closable(model.stream(sent, tools))) as chunks:
            return await assemble(chunks)

    def _count(self, response: ModelResponse) -> None:
        for name, count in (response.usage or {}).items():
            self._usage[name] = self._usage.get(name, 0) + count
        facts: dict[str, Any] = {"finish_reason": response.finish_reason, "usage": response.usage}
        facts["tool_calls"] = [call.to_context() for call in response.tool_calls]
        self._tell("model-end", **facts)

    async def _finish(self, answer: Answer, turn: int) -> None:
        point = InterceptionPoint.OUTPUT
        content = answer.response.content if answer.response.content is not None else ""
        passage = await self._emissions.emit(point, self._id, sources=answer.labels, content=content)
        output = self._content_of(point, passage)
        final = Entry({"role": "assistant", "content": output}, union(answer.labels, passage.labels))
        self._entries.append(final)
        await self._persist()
        self.result = RunResult(
            output=output,
            messages=[entry.message for entry in self._entries],
            records=tuple(self._emissions.records[self._first_record :]),
            labels=final.labels,
            session_id=self._session_id,
            turns=turn,
            finish_reason=answer.response.finish_reason,
            usage=dict(self._usage),
        )
        await self._end_turn(final.message)

    async def _persist(self) -> None:
        await self._history.append(self._entries[self._durable :])
        self._durable = len(self._entries)

    async def _end_turn(self, message: dict[str, Any]) -> None:
        await self._definition.hooks.turn_ended(self._emissions.turn, message)
        self._tell("turn-end", message=message)

    def _messages(self) -> list[dict[str, Any]]:
        instructions = self._definition.instructions
        system = [] if instructions is None else [{"role": "system", "content": instructions}]
        return system + [entry.message for entry in self._past + self._entries]

    def _tell(self, name: EventName, **facts: Any) -> None:
        definition = self._definition
        definition.watchers.tell(name, definition.agent_id, self._session_id, self._emissions.turn, **facts)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that may be incorporated, with the labels of all it derives from."""

    response: ModelResponse
    labels: Labels


async def _closable(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    """Iterate *chunks*, closing them at the end if they can be closed."""
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
