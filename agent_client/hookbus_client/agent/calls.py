"""The tool seam: every call in its own ``pre_tool_call``/``post_tool_call`` pair."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
from agent_hooks import InterceptionBlocked, InterceptionPoint, InterceptionRecord

from hookbus_client.agent.boundary import tool_error
from hookbus_client.agent.definition import Definition
from hookbus_client.agent.emissions import Emissions
from hookbus_client.agent.history import Entry
from hookbus_client.agent.labels import Labels, inherited, union
from hookbus_client.agent.model import UNPARSED, ToolCall
from hookbus_client.agent.projection import Unprojectable, as_text, project, project_result
from hookbus_client.agent.tools import Tool, ToolResult


class ToolCalls:
    """Executes the calls of one response.

    The steps of a call: the verdict at ``pre_tool_call`` → ``before_tool_execution`` on the
    arguments it left → the tool → ``after_tool_execution`` → the verdict at ``post_tool_call`` →
    what the model reads. A call of a tool that does not exist, or without readable arguments, is
    no invocation: it is emitted at neither point and answered with an error text. *messages* is the
    conversation up to the calls; ``pre_tool_call`` shows it, and how the called tool is declared (§4.5).
    """

    def __init__(
        self,
        definition: Definition,
        emissions: Emissions,
        tell: Callable[..., None],
        sources: Labels,
        messages: Sequence[dict[str, Any]],
    ) -> None:
        self._definition = definition
        self._emissions = emissions
        self._tell = tell
        self._sources = sources
        self._messages = [{"content": None, **message} for message in messages]

    async def execute(self, calls: Sequence[ToolCall], request_id: str) -> list[Entry]:
        """Return one tool message per call, in the order of *calls*, run concurrently (§12.2).

        Raises :class:`agent_hooks.InterceptionBlocked` when the posture is to terminate, after
        every call has settled.
        """
        entries: dict[int, Entry] = {}
        terminating: list[InterceptionBlocked] = []

        async def settle(index: int, call: ToolCall) -> None:
            try:
                entries[index] = await self._one(call, request_id)
            except InterceptionBlocked as blocked:
                terminating.append(blocked)

        try:
            async with anyio.create_task_group() as group:
                for index, call in enumerate(calls):
                    group.start_soon(settle, index, call)
        except BaseExceptionGroup as failures:
            # A hook raised: its error is the run's, not a group of one.
            raise failures.exceptions[0] from None
        if terminating:
            raise terminating[0]
        return [entries[index] for index in range(len(calls))]

    async def _one(self, call: ToolCall, request_id: str) -> Entry:
        view: dict[str, Any] = {"id": call.id, "name": call.name, "args": call.args}
        tool = self._definition.tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self._definition.tools)) or "none"
            text = f"There is no tool named {call.name!r}. Tools: {known}."
            return await self._unrun(view, text)
        if call.unparsed is not None:
            text = f"The arguments of {call.name} were not one plain JSON object. Call it again."
            return await self._unrun({**view, UNPARSED: call.unparsed}, text)
        fields: dict[str, Any] = {"call_id": call.id, "name": call.name}
        once = (request_id, call.id)
        point = InterceptionPoint.PRE_TOOL_CALL
        try:
            beside = {"messages": self._messages, "tools": [tool.to_context()]}
            permitted = await self._emissions.emit(
                point, *once, sources=self._sources, beside=beside, args=call.args, **fields
            )
            if not isinstance(permitted.target, dict):
                self._emissions.host_failure(point, type(permitted.target).__name__)
        except InterceptionBlocked as blocked:
            return await self._unrun(view, self._denial(blocked, f"The call of {call.name} was denied"))
        view["args"] = permitted.target
        labels = union(self._sources, permitted.labels)

        started = time.monotonic()
        refusal = await self._definition.hooks.refusal(view)
        point = InterceptionPoint.POST_TOOL_CALL
        try:
            if refusal is not None:
                result = ToolResult(refusal.text, is_error=True)
            else:
                self._tell("tool-start", call=view)
                result = await self._run(tool, view["args"], labels)
            labels = union(labels, result.labels)
            duration_ms = round((time.monotonic() - started) * 1000)
            value = await self._definition.hooks.result_to_read(view, result.value, result.is_error)
            incorporated = await self._emissions.emit(
                point,
                *once,
                sources=labels,
                args=view["args"],
                value=value,
                is_error=result.is_error,
                duration_ms=duration_ms,
                **fields,
            )
        except InterceptionBlocked as blocked:
            # The result is discarded as if the tool had errored, and with it its labels (§6.1, §5.4).
            text = self._denial(blocked, f"The result of {call.name} was withheld")
            return self._message(view, text, is_error=True, labels=self._sources)
        text = as_text(incorporated.target)
        labels = union(labels, incorporated.labels)
        return self._message(view, text, is_error=result.is_error, labels=labels)

    async def _run(self, tool: Tool, args: dict[str, Any], labels: Labels) -> ToolResult:
        token = inherited.set(labels)
        try:
            # A copy: post_tool_call reports the arguments that were passed, whatever the tool does to them.
            own = project(args)
            returned, error = await tool_error(lambda: tool.call(own))
        finally:
            inherited.reset(token)
        if error is not None:
            return ToolResult(error, is_error=True)
        result = returned if isinstance(returned, ToolResult) else ToolResult(returned)
        try:
            return replace(result, value=project_result(result.value))
        except Unprojectable as failure:
            self._emissions.host_failure(InterceptionPoint.POST_TOOL_CALL, failure.type_name)
            return ToolResult(
                f"The tool returned a value of type {failure.type_name}, which has no JSON form.", is_error=True
            )

    async def _unrun(self, view: dict[str, Any], text: str) -> Entry:
        read = await self._definition.hooks.result_to_read(view, text, True)
        return self._message(view, as_text(read), is_error=True, labels=self._sources)

    def _message(self, view: dict[str, Any], text: str, *, is_error: bool, labels: Labels) -> Entry:
        self._tell("tool-end", call=view, result=text, is_error=is_error)
        return Entry({"role": "tool", "tool_call_id": view["id"], "content": text}, labels)

    def _denial(self, blocked: InterceptionBlocked, what: str) -> str:
        """Return what the model reads, or end the run when that is the declared posture (§6.2)."""
        reason = blocked.result.verdict.reason or ""
        if reason.startswith("host_error:") and self._definition.posture == "terminate":
            raise blocked
        return f"{what}: {_because(blocked.result)}"


def _because(record: InterceptionRecord) -> str:
    reason = record.verdict.reason or "no reason given"
    return f"{reason} ({record.verdict.message})" if record.verdict.message else reason
