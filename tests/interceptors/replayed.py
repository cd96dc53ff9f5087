"""Interceptors that are replayed to, for workers in this process and in others."""

from __future__ import annotations

from hookbus_interceptors.authoring import (
    InputContext,
    Interceptor,
    OutputContext,
    PreToolCallContext,
    Verdict,
    allow,
    deny,
    input,
    output,
    pre_tool_call,
    replace,
)


class Before(Interceptor):
    """Denies ``drop``, and hides every output."""

    policy_version = "before"

    @input
    def comes(self, context: InputContext) -> Verdict:
        return allow()

    @pre_tool_call
    def call(self, context: PreToolCallContext) -> Verdict:
        return deny("db:no-drops") if context.tool_call.name == "drop" else allow()

    @output
    def says(self, context: OutputContext) -> Verdict:
        return replace("$target.content", "hidden")


class After(Interceptor):
    """Denies ``pay`` instead, and hides nothing."""

    policy_version = "after"

    @input
    def comes(self, context: InputContext) -> Verdict:
        return allow()

    @output
    def says(self, context: OutputContext) -> Verdict:
        return allow()

    @pre_tool_call
    def call(self, context: PreToolCallContext) -> Verdict:
        return deny("money:no-payments") if context.tool_call.name == "pay" else allow()
