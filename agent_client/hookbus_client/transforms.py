"""Transforms (AGENT-HOOKS-0.1 §5.2, §4.3): one value in the target replaced, nothing else touched."""

from __future__ import annotations

import re
from typing import Final

from agent_hooks import AgentContext, HostError, InterceptionPoint, Transform

from hookbus import HookbusError, codec
from hookbus.context import ALIASES

_ROOTS: Final = ("$target", "$policy_target")
# Zeros in front count for nothing, and no list is as long as 19 digits say; Python reads 4,300 digits at most.
_SEGMENT: Final = re.compile(r'\.([A-Za-z0-9_-]+)|\[0*([0-9]{1,18})\]|\["([A-Za-z0-9_-]+)"\]')


class TransformFailed(HookbusError, ValueError):
    """A transform cannot be applied; ``reason`` is the reserved reason it is denied with (§5.2)."""

    def __init__(self, reason: HostError, why: str) -> None:
        self.reason = reason
        super().__init__(why)


def transformed(context: AgentContext, transform: Transform) -> codec.Json:
    """Return the target of *context* as *transform* leaves it; *context* itself is not changed.

    Only the containers on the path are copied. Raises :class:`TransformFailed` where the point forbids
    transforms or the path does not resolve.
    """
    point = InterceptionPoint(context["interception_point"])
    if not point.transform_permitted:
        raise TransformFailed(HostError.TRANSFORM_TARGET_FORBIDDEN, "this point permits no transform")
    return _replaced(context["target"], _segments(transform.path), transform.value)


def write_back(context: AgentContext, target: codec.Json) -> None:
    """Put *target* into *context*, in both places where its point has it (§4.3)."""
    context["target"] = target
    first, *rest = ALIASES[context["interception_point"]]
    if not rest:
        context[first] = target
    elif isinstance(context.get(first), dict):
        context[first] = {**context[first], rest[0]: target}


def _segments(path: str) -> list[str | int]:
    root = next((root for root in _ROOTS if path.startswith(root)), None)
    if root is None:
        raise TransformFailed(HostError.TRANSFORM_TARGET_FORBIDDEN, "the path is not rooted at $target")
    segments: list[str | int] = []
    position = len(root)
    while position < len(path):
        found = _SEGMENT.match(path, position)
        if found is None:
            raise TransformFailed(HostError.TRANSFORM_INVALID, "the path is outside the grammar of §5.2")
        member, index, quoted = found.groups()
        segments.append(int(index) if index is not None else member or quoted)
        position = found.end()
    return segments


def _replaced(value: codec.Json, segments: list[str | int], replacement: codec.Json) -> codec.Json:
    if not segments:
        return replacement
    segment, below = segments[0], segments[1:]
    if isinstance(segment, str):
        if isinstance(value, dict) and segment in value:
            return {**value, segment: _replaced(value[segment], below, replacement)}
    elif isinstance(value, list | tuple) and segment < len(value):
        copy = list(value)
        copy[segment] = _replaced(value[segment], below, replacement)
        return copy
    raise TransformFailed(HostError.TRANSFORM_INVALID, "the path does not resolve in the target")
