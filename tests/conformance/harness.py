"""The agent of this project under the conformance kit: a scripted model and tools, interceptors over the bus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent_hooks import HostRegistry, InterceptionBlocked
from agent_hooks.ctk import Capability, Harness, RunOutcome, RunRecord, Scenario
from agent_hooks.ctk import harness as kit

from hookbus_client.agent import (
    Agent,
    Chunk,
    ModelResponse,
    StreamEnd,
    TextChunk,
    Tool,
    ToolCall,
    ToolResult,
)

from .deployment import Deployment


@dataclass(frozen=True)
class Stream:
    """How one response arrives; a truncated one never says that it has ended."""

    chunks: tuple[str, ...]
    truncated: bool = False


class ScriptedModel:
    """A model whose Nth response is the script's; streamed, it arrives as *streams* has it."""

    id = "mock"

    def __init__(self, responses: Sequence[kit.ModelResponse], streams: Sequence[Stream] = ()) -> None:
        self._responses = iter(responses)
        self._streams = iter(streams)

    async def complete(self, messages: Any, tools: Any) -> ModelResponse:
        response = next(self._responses)
        calls = tuple(ToolCall(call["id"], call["name"], call["args"]) for call in response.tool_calls)
        return ModelResponse(response.content, calls, response.finish_reason)

    async def stream(self, messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        response, stream = await self.complete(messages, tools), next(self._streams)
        for chunk in stream.chunks:
            yield TextChunk(chunk)
        if not stream.truncated:
            yield StreamEnd(response.finish_reason, response.tool_calls)


class BusHarness(Harness):
    """One vector, driven through ``hookbus_client.Agent`` with every interceptor in a worker.

    ``incremental_output`` is not declared here: the kit hands over no chunks to mediate.
    """

    name = "hookbus"
    capabilities = {  # noqa: RUF012  # the kit's protocol types it as a plain set
        Capability.MODEL_CALLS,
        Capability.TOOL_CALLS,
        Capability.INT64_JSON,
        Capability.BIGINT_JSON,
        Capability.HOST_DECLARATION,
    }
    tool_seam_host_error = "continue"

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
        self._begin(scenario)
        self._emitter = self._deployment.configured(
            interceptors,
            identity_provider=identity_provider,
            redact=redact_for_approval,
            resolver=resolver,
            mode=mode,
            composition=composition,
        )

    def setup_declared(self, scenario: Scenario, document: dict[str, Any], registry: HostRegistry) -> None:
        self._begin(scenario)
        self._emitter = self._deployment.declared(document, registry)

    def _begin(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._deployment = Deployment()
        self._invoked: list[dict[str, Any]] = []

    async def run(self) -> RunRecord:
        outcome, final = RunOutcome.COMPLETED, None
        async with self._deployment:
            try:
                final = await self.drive()
            except InterceptionBlocked:
                outcome = RunOutcome.BLOCKED
        return self._deployment.record(self._emitter, outcome, final, self._invoked)

    def teardown(self) -> None:
        """Nothing outlives :meth:`run`."""

    def model(self) -> ScriptedModel:
        return ScriptedModel(self.scenario.model_script)

    def agent(self, **options: Any) -> Agent:
        tools = [self._tool(spec) for spec in self.scenario.tools.values()]
        return Agent(self.model(), self._emitter, agent_id="ctk-agent", tools=tools, **options)

    async def drive(self) -> Any:
        """Run the agent on the vector's input and return its final output."""
        asked = self.scenario.input
        return (await self.agent().run(asked["content"], role=asked["role"])).output

    def _tool(self, spec: kit.ToolSpec) -> Tool:
        async def call(args: dict[str, Any]) -> ToolResult:
            value, is_error = spec.invoke(args)
            self._invoked.append({"name": spec.name, "args": args})
            return ToolResult(value, is_error)

        return Tool(spec.name, call)
