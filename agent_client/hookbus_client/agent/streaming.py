"""Incremental mediation: a streamed response released segment by segment, each on its verdict (§12.1).

The declared exposure bound is none: no text reaches the caller before the verdict covering it
permits. What was released cannot be taken back, so a transform that would change it is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from agent_hooks import InterceptionPoint

from hookbus_client.agent.emissions import Emissions
from hookbus_client.agent.errors import ModelFailed, StreamTruncated
from hookbus_client.agent.labels import Labels, union
from hookbus_client.agent.model import (
    Chunk,
    ModelResponse,
    StreamEnd,
    effective_response,
    ended,
    with_distinct_ids,
)

INCREMENTAL = "incremental"
INCOMPLETE = "stream_incomplete"


class Mediation:
    """The mediation of one streamed response. After :meth:`segments` ends, ``response`` is what was permitted.

    Each chunk closes a segment; its ``post_model_call`` carries the assembled prefix, as earlier
    verdicts left it, and waits for the next chunk to know whether it was the last. The last one
    carries the real finish reason and the tool calls.
    """

    def __init__(self, emissions: Emissions, model_id: str, request_id: str, sources: Labels) -> None:
        self.response: ModelResponse | None = None
        self.labels = sources
        self._emissions = emissions
        self._fields: dict[str, Any] = {"model_id": model_id, "request_id": request_id}
        self._released = ""

    async def segments(self, chunks: AsyncIterator[Chunk]) -> AsyncGenerator[str, None]:
        """Yield text as its verdict permits.

        Raises :class:`agent_hooks.InterceptionBlocked` at the first deny, and when the stream ends
        with text that no emission evaluated; :class:`ModelFailed` when it fails with none.
        """
        prefix, pending, end = "", "", None
        while end is None:
            try:
                chunk = await anext(chunks)
            except (StopAsyncIteration, ModelFailed) as stopped:
                self._residue(prefix + pending, pending, stopped)
            if isinstance(chunk, StreamEnd):
                end = chunk
            elif chunk.text:
                if pending:
                    prefix = await self._evaluate(ModelResponse(prefix + pending, (), INCREMENTAL))
                    yield self._release(prefix)
                pending = chunk.text
        last = await self._evaluate(with_distinct_ids(ended(prefix + pending, end)))
        remainder = self._release(last)
        if remainder:
            yield remainder

    def _residue(self, delivered: str, pending: str, stopped: StopAsyncIteration | ModelFailed) -> None:
        failure = stopped if isinstance(stopped, ModelFailed) else StreamTruncated()
        if pending:
            # Content that nobody evaluated fails closed, not clean (§12.1, exception item 3).
            self._deny(delivered)
        raise failure from None

    async def _evaluate(self, response: ModelResponse) -> str:
        passage = await self._emissions.emit(
            InterceptionPoint.POST_MODEL_CALL, sources=self.labels, **self._fields, **response.to_fields()
        )
        effective = effective_response(passage.target, response)
        if effective is None:
            self._emissions.host_failure(InterceptionPoint.POST_MODEL_CALL, "response")
            effective = response
        text = effective.content if effective.content is not None else ""
        if not isinstance(text, str) or not text.startswith(self._released):
            self._deny(self._released)
        self.labels = union(self.labels, passage.labels)
        self.response = effective
        return str(text)

    def _release(self, text: str) -> str:
        segment = text[len(self._released) :]
        self._released = text
        return segment

    def _deny(self, delivered: str) -> None:
        fields: dict[str, Any] = ModelResponse(delivered, (), INCOMPLETE).to_fields()
        self._emissions.residue(**self._fields, **fields)
