"""Writing an interceptor: decorated functions, typed views of the context, verdicts by name."""

from agent_hooks import Verdict

from hookbus_interceptors.authoring.context_views import (
    AgentShutdownContext,
    AgentStartupContext,
    Context,
    ContextMalformed,
    InputContext,
    OutputContext,
    PostModelCallContext,
    PostToolCallContext,
    PreModelCallContext,
    PreToolCallContext,
)
from hookbus_interceptors.authoring.decorators import (
    Interceptor,
    NoPoint,
    NotAVerdict,
    PointFunction,
    agent_shutdown,
    agent_startup,
    input,
    output,
    post_model_call,
    post_tool_call,
    pre_model_call,
    pre_tool_call,
)
from hookbus_interceptors.authoring.verdicts import allow, deny, escalate, replace, warning

__all__ = [
    "AgentShutdownContext",
    "AgentStartupContext",
    "Context",
    "ContextMalformed",
    "InputContext",
    "Interceptor",
    "NoPoint",
    "NotAVerdict",
    "OutputContext",
    "PointFunction",
    "PostModelCallContext",
    "PostToolCallContext",
    "PreModelCallContext",
    "PreToolCallContext",
    "Verdict",
    "agent_shutdown",
    "agent_startup",
    "allow",
    "deny",
    "escalate",
    "input",
    "output",
    "post_model_call",
    "post_tool_call",
    "pre_model_call",
    "pre_tool_call",
    "replace",
    "warning",
]
