"""Typed views of a context: one class for each interception point, over the dict that the worker decoded.

A block is checked and converted when it is first read. One that is missing or of the wrong shape raises
:class:`ContextMalformed`, which denies; fields that the standard does not name stand in ``raw`` alone.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, Generic, TypeVar

import msgspec
from agent_hooks import InterceptionPoint

from hookbus import HookbusError
from hookbus.codec import Json

T = TypeVar("T")


class ContextMalformed(HookbusError, ValueError):
    """The context's ``block`` is missing or of the wrong shape. Tells the place, never what stands there."""

    def __init__(self, block: str) -> None:
        self.block = block
        super().__init__(f"the context's {block} is missing or not of the shape that AGENT-HOOKS-0.1 §4 gives it")


class Agent(msgspec.Struct, frozen=True):
    """Who asks."""

    id: str
    framework: str = ""
    name: str | None = None
    version: str | None = None


class Session(msgspec.Struct, frozen=True):
    """The conversation that the question belongs to."""

    id: str
    started_at: str | None = None
    turn: int | None = None


class Actor(msgspec.Struct, frozen=True):
    """On whose behalf the agent acts; ``kind`` is human, service or agent."""

    id: str | None = None
    kind: str | None = None


class Budgets(msgspec.Struct, frozen=True):
    """What the session has used up, as the agent counts it."""

    tool_call_count: float | None = None
    token_count: float | None = None
    elapsed_seconds: float | None = None
    cost_usd: float | None = None


class AgentInit(msgspec.Struct, frozen=True):
    """What an agent starts with."""

    tools_registered: list[str]


class Input(msgspec.Struct, frozen=True):
    """What came in; ``role`` is user, system or external."""

    content: Json
    role: str


class Model(msgspec.Struct, frozen=True):
    """Which model is called."""

    id: str
    vendor: str | None = None
    params: dict[str, Json] = {}


class Tool(msgspec.Struct, frozen=True):
    """A tool as the model is told of it; ``schema`` is a JSON Schema of its arguments."""

    name: str
    description: str | None = None
    schema: dict[str, Json] | None = None


class RequestedCall(msgspec.Struct, frozen=True):
    """A tool call as the model asked for it."""

    name: str
    args: dict[str, Json]
    id: str | None = None


class Response(msgspec.Struct, frozen=True):
    """What the model answered."""

    content: Json
    tool_calls: list[RequestedCall]
    finish_reason: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one model call."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call that is about to run, or has run."""

    id: str
    name: str
    args: dict[str, Json]


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool returned."""

    value: Json
    is_error: bool
    duration_ms: float | None = None


class Output(msgspec.Struct, frozen=True):
    """What the agent is about to hand to its caller."""

    content: Json


class Summary(msgspec.Struct, frozen=True):
    """How a session ended; ``reason`` is completed, error or cancelled."""

    reason: str
    tool_calls: int | None = None
    errors: int | None = None
    duration_seconds: float | None = None


class _Block(Generic[T]):
    """A block of the context that its point requires, converted when it is first read."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, view: Context, _owner: type | None = None) -> T:
        found: T = view.block(self._name, self._kind)
        # Without __set__ the instance's own attribute is found first from now on.
        view.__dict__[self._name] = found
        return found


class Context:
    """What every point has. ``raw`` is the context itself, as decoded."""

    def __init__(self, raw: dict[str, Json]) -> None:
        self.raw = raw

    def block(self, name: str, kind: type[T]) -> T:
        """Return the block *name* as a *kind*; raise :class:`ContextMalformed`."""
        try:
            return msgspec.convert(self.raw[name], kind)
        except (KeyError, msgspec.ValidationError):
            raise ContextMalformed(name) from None

    @property
    def point(self) -> InterceptionPoint:
        """The interception point."""
        return self.block("interception_point", InterceptionPoint)

    @property
    def target(self) -> Json:
        """What a transform replaces (§4.3): at each point the block that its view names, or the heart of it."""
        if "target" not in self.raw:
            raise ContextMalformed("target")
        return self.raw["target"]

    @property
    def sequence(self) -> int:
        """The place of this question in its session, from 0."""
        return self.block("sequence", int)

    agent = _Block(Agent)
    session = _Block(Session)

    @cached_property
    def tenant_id(self) -> str | None:
        """The tenant, where the agent names one. The worker has checked it against the subject."""
        return self.block("tenant", Actor).id if "tenant" in self.raw else None

    @cached_property
    def actor(self) -> Actor:
        """On whose behalf the agent acts; without an id where the agent does not say."""
        return self.block("actor", Actor) if "actor" in self.raw else Actor()

    @cached_property
    def budgets(self) -> Budgets:
        """What the agent says that its session has used up."""
        return self.block("budgets", Budgets) if "budgets" in self.raw else Budgets()

    @cached_property
    def extensions(self) -> dict[str, Json]:
        """What stands under a namespace (§4.6)."""
        return self.block("extensions", dict[str, Json]) if "extensions" in self.raw else {}

    def source_labels(self, interceptor: str) -> tuple[str, ...]:
        """Return the labels that *interceptor* gave to what this question derives from (§5.4).

        As a namespace its name has ``_`` for ``-``. An agent may put the labels of all under each name.
        """
        namespace = self.extensions.get(interceptor.replace("-", "_"), {})
        labels = namespace.get("source_labels", []) if isinstance(namespace, dict) else None
        try:
            return tuple(msgspec.convert(labels, list[str]))
        except msgspec.ValidationError:
            raise ContextMalformed("extensions") from None


class AgentStartupContext(Context):
    """An agent is about to start. No transform is permitted."""

    agent_init = _Block(AgentInit)


class InputContext(Context):
    """Something came in; the target is ``input``."""

    input = _Block(Input)


class PreModelCallContext(Context):
    """The model is about to be called; the target is ``messages``."""

    model = _Block(Model)
    messages = _Block(list[dict[str, Json]])

    @cached_property
    def tools(self) -> list[Tool]:
        """What the model is told that it may call."""
        return self.block("tools", list[Tool]) if "tools" in self.raw else []


class PostModelCallContext(Context):
    """The model has answered; the target is ``response``."""

    model = _Block(Model)
    response = _Block(Response)

    @cached_property
    def usage(self) -> Usage:
        """The tokens that the call took, where the agent says."""
        return self.block("usage", Usage) if "usage" in self.raw else Usage()


class PreToolCallContext(Context):
    """A tool is about to run; the target is its arguments."""

    tool_call = _Block(ToolCall)


class PostToolCallContext(Context):
    """A tool has run; the target is what it returned."""

    tool_call = _Block(ToolCall)
    tool_result = _Block(ToolResult)


class OutputContext(Context):
    """The agent is about to answer its caller; the target is ``output``."""

    output = _Block(Output)


class AgentShutdownContext(Context):
    """An agent ends. No transform is permitted."""

    summary = _Block(Summary)


VIEWS: Final[dict[InterceptionPoint, type[Context]]] = {
    InterceptionPoint.AGENT_STARTUP: AgentStartupContext,
    InterceptionPoint.INPUT: InputContext,
    InterceptionPoint.PRE_MODEL_CALL: PreModelCallContext,
    InterceptionPoint.POST_MODEL_CALL: PostModelCallContext,
    InterceptionPoint.PRE_TOOL_CALL: PreToolCallContext,
    InterceptionPoint.POST_TOOL_CALL: PostToolCallContext,
    InterceptionPoint.OUTPUT: OutputContext,
    InterceptionPoint.AGENT_SHUTDOWN: AgentShutdownContext,
}
