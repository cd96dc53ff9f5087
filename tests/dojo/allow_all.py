"""An interceptor that permits everything, to be run as a worker."""

from __future__ import annotations

from agent_hooks import AgentContext, Verdict


def allow_all(context: AgentContext) -> Verdict:
    """Allow, whatever it is."""
    return Verdict.allow()
