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


def outgoing(context: dict[str, codec.Json], domain: codec.Domain) -> Outgoing:
    """Return *context*, whose envelope is valid and which :func:`codec.survey` described as *domain*.

    Raises :class:`hookbus.errors.OutOfDomain` for a lone surrogate.
    """
    traceparent, tracestate = _trace(context.get("trace"))
    return Outgoing(
        body=codec.encode(context, domain),
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
