"""The demo's policy: who may book which seat."""

from __future__ import annotations

from agent_hooks import AgentContext, InterceptionPoint, Verdict

#: Nothing else is booked without a manager: a class that this policy has never heard of may be a dear one.
_BELOW_FIRST = frozenset({"tourist", "pullman"})


class TravelPolicy:
    """Refuses to book first class, or any class it does not know, without a manager's approval.

    The refusal is a deny that the approval seam may lift (AGENT-HOOKS-0.1 §9). Everything else passes.
    """

    def intercept(self, context: AgentContext, /) -> Verdict:
        """Return the verdict on one tool call; its ``target`` is the arguments. Allows every other point."""
        if context["interception_point"] != InterceptionPoint.PRE_TOOL_CALL:
            return Verdict.allow()
        if context["tool_call"]["name"] != "book_ticket":
            return Verdict.allow()
        seat_class = context["target"].get("seat_class")
        if isinstance(seat_class, str) and seat_class.strip().casefold() in _BELOW_FIRST:
            return Verdict.allow()
        return Verdict.escalate(
            reason="first class needs a manager's approval",
            message="pullman and tourist need none",
        )
