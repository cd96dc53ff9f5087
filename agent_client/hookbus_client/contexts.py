"""Whether a context may be asked about at all: its envelope (AGENT-HOOKS-0.1 §4) before anybody sees it."""

from __future__ import annotations

import re
from typing import Final

from agent_hooks import AgentContext, InterceptionPoint

from hookbus import OutOfDomain

_SPEC: Final = re.compile(r"agent-hooks/[0-9]+\.[0-9]+")
_FRAMEWORK: Final = re.compile(r"[a-z0-9_-]+")
_MAX_SEQUENCE: Final = 2**63 - 1

#: The fields that each point requires and the members that each must have; None is any value (§4.2).
CONDITIONAL: Final[dict[str, tuple[tuple[str, tuple[str, ...] | None], ...]]] = {
    "agent_startup": (("agent_init", ("tools_registered",)),),
    "input": (("input", ("content", "role")),),
    "pre_model_call": (("model", ("id",)), ("messages", None)),
    "post_model_call": (("model", ("id",)), ("response", ("content", "tool_calls", "finish_reason"))),
    "pre_tool_call": (("tool_call", ("id", "name", "args")),),
    "post_tool_call": (("tool_call", ("id", "name", "args")), ("tool_result", ("value", "is_error"))),
    "output": (("output", ("content",)),),
    "agent_shutdown": (("summary", ("reason",)),),
}


def check_envelope(context: AgentContext) -> None:
    """Raise :class:`hookbus.OutOfDomain` unless *context* has the envelope of §4.1 and §4.2.

    Presence and JSON type of the required core, presence of each point's own fields: what the standard's
    own gate checks. The message names the field, never its value.
    """
    if not (isinstance(spec := context.get("spec"), str) and _SPEC.fullmatch(spec)):
        raise _missing("spec", "an agent-hooks/<major>.<minor> string")
    point = context.get("interception_point")
    if not isinstance(point, str) or point not in CONDITIONAL:
        raise _missing("interception_point", "one of the eight points")
    if not isinstance(context.get("timestamp"), str):
        raise _missing("timestamp", "a string")
    sequence = context.get("sequence")
    if type(sequence) is not int or not 0 <= sequence <= _MAX_SEQUENCE:
        raise _missing("sequence", "an integer of 0 or more")
    agent = context.get("agent")
    if not isinstance(agent, dict):
        raise _missing("agent", "an object")
    if not (isinstance(agent.get("id"), str) and agent["id"]):
        raise _missing("agent.id", "a string that is not empty")
    framework = agent.get("framework")
    if not (isinstance(framework, str) and _FRAMEWORK.fullmatch(framework)):
        raise _missing("agent.framework", "a string of a-z 0-9 _ -")
    session = context.get("session")
    if not (isinstance(session, dict) and isinstance(session.get("id"), str) and session["id"]):
        raise _missing("session.id", "a string that is not empty")
    if "target" not in context:
        raise _missing("target", "present")
    for field, members in CONDITIONAL[point]:
        if field not in context:
            raise _missing(field, "present at this point")
        if members is not None:
            value = context[field]
            if not isinstance(value, dict):
                raise _missing(field, "an object")
            for member in members:
                if member not in value:
                    raise _missing(f"{field}.{member}", "present")


def point_of(context: AgentContext) -> InterceptionPoint | None:
    """Return the interception point that *context* names, or None if it names none of the eight."""
    try:
        return InterceptionPoint(context.get("interception_point"))
    except ValueError:
        return None


def _missing(field: str, wanted: str) -> OutOfDomain:
    return OutOfDomain(f"{field} is missing or not {wanted} (AGENT-HOOKS-0.1 §4)")
