"""A context made ready to travel: checked, encoded once, and addressed (contract, section 2)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hookbus import codec
from hookbus.subjects import token

_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
_TRACESTATE: Final = re.compile(r"[\x20-\x7e]{1,512}")


#: Where the target stands a second time at each point (§4.3).
ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "input": ("input",),
    "pre_model_call": ("messages",),
    "post_model_call": ("response",),
    "pre_tool_call": ("tool_call", "args"),
    "post_tool_call": ("tool_result", "value"),
    "output": ("output",),
}


#: The points where it may be large, and where no member of it is identified by itself (§10.2).
_ENCODED_ONCE: Final = ("pre_model_call", "pre_tool_call", "post_tool_call")


class Outgoing(msgspec.Struct, frozen=True):
    """One context as it goes out, the same bytes to every interceptor."""

    body: bytes
    #: The interception point, which is a token as it stands.
    point: str
    #: The token of ``agent.id``.
    agent: str
    #: The W3C ``traceparent`` and ``tracestate`` of the context's ``trace`` block, where it has one.
    traceparent: str | None
    tracestate: str | None


class Prepared(msgspec.Struct, frozen=True):
    """A context looked through once, with its target encoded once though it stands in it twice (§4.3)."""

    context: dict[str, codec.Json]
    domain: codec.Domain
    #: What encoders take for *context*: the same, but for a target that is encoded already, keys sorted.
    encodable: dict[str, codec.Json]


def prepare(context: dict[str, codec.Json]) -> Prepared:
    """Return *context*, whose envelope is valid, ready to be identified and sent.

    Raises :class:`hookbus.errors.OutOfDomain` where the wire cannot carry it exactly.
    """
    point, target = context["interception_point"], context["target"]
    path = ALIASES[point] if point in _ENCODED_ONCE else None
    if path is None or not isinstance(target, dict | list) or _at(context, path) is not target:
        return Prepared(context, codec.survey(context), context)
    domain = codec.survey({name: value for name, value in context.items() if name != "target"})
    if domain.subclassed:
        return Prepared(context, domain, context)
    encoded = msgspec.Raw(codec.encode_sorted(target))
    encodable = {**context, "target": encoded}
    first, *rest = path
    encodable[first] = {**context[first], rest[0]: encoded} if rest else encoded
    return Prepared(context, domain, encodable)


def _at(context: dict[str, codec.Json], path: tuple[str, ...]) -> codec.Json:
    value: codec.Json = context
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def outgoing(prepared: Prepared) -> Outgoing:
    """Return *prepared* as it goes out. Raises :class:`hookbus.errors.OutOfDomain` for a lone surrogate."""
    context = prepared.context
    traceparent, tracestate = _trace(context.get("trace"))
    return Outgoing(
        body=codec.encode(prepared.encodable, prepared.domain),
        point=context["interception_point"],
        agent=token(context["agent"]["id"]),
        traceparent=traceparent,
        tracestate=tracestate,
    )


def _trace(block: codec.Json) -> tuple[str | None, str | None]:
    if not isinstance(block, dict):
        return None, None
    trace_id, span_id, state = block.get("trace_id"), block.get("span_id"), block.get("tracestate")
    if not (
        isinstance(trace_id, str)
        and isinstance(span_id, str)
        and _TRACE_ID.fullmatch(trace_id)
        and _SPAN_ID.fullmatch(span_id)
    ):
        return None, None
    keep_state = isinstance(state, str) and _TRACESTATE.fullmatch(state)
    return f"00-{trace_id}-{span_id}-01", state if keep_state else None
