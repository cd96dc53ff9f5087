"""Microsoft Agent Framework under the kit: its real Agent, interceptors that answer over the bus."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from agent_framework import (
    SKIP_PARSING,
    Agent,
    AgentContext,
    AgentMiddleware,
    Content,
    FunctionTool,
    Message,
    create_agent_hooks_middleware_from_emitter,
)
from agent_hooks import AgentContextBuilder, InterceptionBlocked
from agent_hooks.ctk import Capability, Harness, RunOutcome, RunRecord, Scenario
from agent_hooks.ctk.harness import ModelResponse, ToolSpec

from tests.agent_framework.scripted import Reply, ScriptedChatClient

from .deployment import Deployment


class LastMessage(AgentMiddleware):
    """Presents the run's last message alone, inside the bundle: the verdict on the output covers what leaves."""

    async def process(self, context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()
        if context.result is not None:
            context.result.messages = context.result.messages[-1:]


class AgentFrameworkHarness(Harness):
    """One vector over the bus; a ``host_error`` at the tool seam ends this framework's run."""

    name = "agent-framework"
    capabilities = {  # noqa: RUF012  # the kit's protocol types it as a plain set
        Capability.MODEL_CALLS,
        Capability.TOOL_CALLS,
        Capability.INT64_JSON,
        Capability.BIGINT_JSON,
    }
    tool_seam_host_error = "terminate"

    def setup(
        self,
        scenario: Scenario,
        interceptors: list[Any],
        resolver: Any,
        mode: Any,
        composition: Any,
        identity_provider: str | None,
        redact_for_approval: list[str] | None = None,
    ) -> None:
        self.deployment = Deployment()
        self._emitter = self.deployment.configured(
            interceptors,
            identity_provider=identity_provider,
            redact=redact_for_approval,
            resolver=resolver,
            mode=mode,
            composition=composition,
        )
        self._scenario = scenario
        self._invoked: list[dict[str, Any]] = []

    async def run(self) -> RunRecord:
        async with self.deployment:
            outcome, final = await self._run_agent()
        return self.deployment.record(self._emitter, outcome, final, self._invoked)

    def teardown(self) -> None:
        """Nothing outlives :meth:`run`."""

    async def _run_agent(self) -> tuple[RunOutcome, str | None]:
        """The session and one run in it: the host owns the bracket, the middleware the points between."""
        scenario = self._scenario
        builder = AgentContextBuilder(agent_id="ctk-agent", framework=self.name, session_id=uuid4().hex)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*experimental")
            bundle = create_agent_hooks_middleware_from_emitter(self._emitter, builder)
        agent = Agent(
            ScriptedChatClient([_reply(response) for response in scenario.model_script]),
            tools=[self._tool(spec) for spec in scenario.tools.values()],
            middleware=[bundle, LastMessage()],
        )
        asked = Message(scenario.input["role"], [scenario.input["content"]])
        outcome, final = RunOutcome.COMPLETED, None
        try:
            await self._emitter.emit(builder.agent_startup(tools_registered=sorted(scenario.tools)))
            final = (await agent.run(asked)).text
        except InterceptionBlocked:
            outcome = RunOutcome.BLOCKED
        reason = "completed" if outcome is RunOutcome.COMPLETED else "error"
        await self._emitter.emit_unchecked(builder.agent_shutdown(reason=reason))
        return outcome, final

    def _tool(self, spec: ToolSpec) -> FunctionTool:
        def invoke(**args: Any) -> Any:
            value, is_error = spec.invoke(args)
            self._invoked.append({"name": spec.name, "args": args})
            assert not is_error, "no vector scripts a tool that fails"
            return value

        return FunctionTool(
            name=spec.name,
            func=invoke,
            input_model={"type": "object", "properties": {}, "additionalProperties": True},
            approval_mode="never_require",
            result_parser=SKIP_PARSING,
        )


def _reply(response: ModelResponse) -> Reply:
    text = [] if response.content is None else [Content.from_text(response.content)]
    calls = [Content.from_function_call(c["id"], c["name"], arguments=c["args"]) for c in response.tool_calls]
    return Reply([*text, *calls], response.finish_reason)
