"""``refuse-tools``: refuses tools by name. Small on purpose: it shows how a shipped interceptor looks.

What it stops: a call of a tool that the configuration names, however it is qualified and in whatever case. What it
cannot: a tool that does the same under another name. How it fails: denies.
"""

from __future__ import annotations

from pydantic import field_validator

from hookbus_interceptors.authoring import PreToolCallContext, Verdict, allow, deny, pre_tool_call
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured


class RefusedTools(Configuration):
    """Which tools are refused, and what the model is told."""

    #: Plain names; ``mcp__server__tool`` is met by ``tool``.
    tools: frozenset[str] = frozenset()
    #: What the model reads.
    message: str = "This tool is not permitted here."

    @field_validator("tools")
    @classmethod
    def _folded(cls, names: frozenset[str]) -> frozenset[str]:
        return frozenset(name.casefold() for name in names)


class RefuseTools(Configured[RefusedTools]):
    """Denies a call of a tool that its configuration names."""

    @pre_tool_call
    def judge(self, context: PreToolCallContext) -> Verdict:
        """Return a deny for a refused tool, else allow."""
        name = context.tool_call.name.casefold()
        if {name, name.rpartition("__")[2]} & self.configuration.tools:
            return deny("refuse-tools:refused", self.configuration.message)
        return allow()
