"""The interception record (AGENT-HOOKS-0.1 §10.3): one per emission, and no payload in it."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from agent_hooks import (
    ALLOW,
    AgentContext,
    CompositionConfig,
    EnforcementMode,
    InterceptionPoint,
    InterceptionRecord,
    Transform,
    Verdict,
    Warning,
)

from hookbus_client.composition import replaced
from hookbus_client.compositor import Outcome
from hookbus_client.contexts import point_of

MAX_MESSAGE_BYTES: Final = 256


def record_of(
    context: AgentContext,
    outcome: Outcome,
    *,
    mode: EnforcementMode,
    composition: CompositionConfig,
    provider: str | None,
    input_identity: str | None,
    enforced_identity: str | None,
    registered: int,
    declaration: str | None,
) -> InterceptionRecord:
    """Return the record of *outcome*. Takes what the envelope of *context* still tells, however broken it is.

    ``composition`` is as :func:`hookbus_client.composition.resolved` returns it; ``declaration`` is the
    contract version of a host declaration, where one governs the host (§7.7.8).
    """
    session, sequence = context.get("session"), context.get("sequence")
    known = type(sequence) is int and -(2**63) <= sequence < 2**63
    return InterceptionRecord(
        interception_point=point_of(context) or InterceptionPoint.AGENT_STARTUP,
        mode=mode,
        verdict=projection(outcome.combined),
        input_identity=input_identity,
        enforced_identity=enforced_identity,
        identity_provider=provider,
        session_id=(_text(session.get("id")) if isinstance(session, dict) else None) or "",
        sequence=sequence if known and sequence is not None else -1,
        timestamp=_text(context.get("timestamp")),
        trace=_trace(context.get("trace")),
        decided_by=outcome.decided_by,
        composition=composition,
        declaration=declaration,
        verdicts=outcome.verdicts,
        fold_truncated=outcome.fold_truncated,
        resolved_by=outcome.resolved_by,
        interceptors_registered=registered,
    )


def projection(verdict: Verdict) -> Verdict:
    """Return *verdict* without payload: no transform value, no approval members, bounded messages (§10.3)."""
    if verdict is ALLOW:
        return verdict
    changes: dict[str, Any] = {}
    if verdict.message is not None:
        changes["message"] = _bounded(verdict.message)
    if verdict.warnings:
        changes["warnings"] = tuple(_bounded_warning(warning) for warning in verdict.warnings)
    if verdict.approval:
        changes["approval"] = {}
    if verdict.transform is not None:
        changes["transform"] = Transform(verdict.transform.path, None)
    return replaced(verdict, **changes) if changes else verdict


def _bounded_warning(warning: Warning) -> Warning:
    if warning.message is None:
        return warning
    return dataclasses.replace(warning, message=_bounded(warning.message))


def _bounded(message: str) -> str:
    encoded = message.encode("utf-8")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return message
    # Cut on a character boundary; the mark of the cut stands after it, as in the standard's own core.
    return encoded[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore") + "…"


def _trace(block: object) -> dict[str, str] | None:
    if not isinstance(block, dict):
        return None
    kept = {key: text for key in ("trace_id", "span_id") if (text := _text(block.get(key))) is not None}
    return kept or None


def _text(value: object) -> str | None:
    """Return *value* if it is a string that JSON can carry."""
    if not isinstance(value, str):
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return value
