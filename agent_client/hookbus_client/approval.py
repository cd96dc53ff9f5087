"""The approval seam (AGENT-HOOKS-0.1 §9): consulted for a liftable deny, believed only after its checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agent_hooks import (
    JCS_SHA256,
    AgentContext,
    ApprovalOutcome,
    ApprovalRequest,
    ApprovalResolver,
    Decision,
    HostError,
    InterceptionPoint,
    Verdict,
)

from hookbus import OutOfDomain, codec
from hookbus.context import Prepared
from hookbus_client.contexts import check_envelope
from hookbus_client.failclosed import call_redactor, call_resolver
from hookbus_client.gate import NotAVerdict, verdict_of_object
from hookbus_client.identity import Provider, identity


class Seam(NamedTuple):
    """What a host has registered for approvals; ``timeout_s`` is the seam's own, apart from any budget."""

    resolver: ApprovalResolver | None
    redactor: Callable[[AgentContext], AgentContext] | None
    timeout_s: float | None
    provider: Provider


class Consultation(NamedTuple):
    """The verdict that stands in for the consulted one, and whether it lifts the deny."""

    verdict: Verdict
    lifts: bool


async def consult(seam: Seam, context: AgentContext, verdict: Verdict) -> Consultation | None:
    """Ask the resolver about *verdict*, or return None where the seam is not consulted.

    It is not for a deny that cannot be lifted, at ``agent_shutdown`` (§6.1a), or with no resolver: the deny
    then stands. The identity is that of the context as shown, after the redactor. Every fault denies.
    """
    point = InterceptionPoint(context["interception_point"])
    if not verdict.is_liftable or point is InterceptionPoint.AGENT_SHUTDOWN or seam.resolver is None:
        return None
    shown = context
    if seam.redactor is not None:
        redacted = call_redactor(seam.redactor, context)
        if isinstance(redacted, Verdict):
            return Consultation(redacted, False)
        shown = redacted
    try:
        shown_identity = _identity_of(shown, seam.provider)
    except OutOfDomain as error:
        return _refused(HostError.CONTEXT_INVALID, f"what the approver would see is invalid: {error.why}")
    request = ApprovalRequest(
        context_identity=shown_identity, interception_point=point, verdict=verdict, context=shown
    )
    resolution, failed = await call_resolver(seam.resolver, request, seam.timeout_s)
    if failed is not None:
        return Consultation(failed, False)
    return _checked(resolution, shown_identity)


def _identity_of(shown: AgentContext, provider: Provider) -> str | None:
    if provider is None:
        return None
    if provider == JCS_SHA256:
        # Earlier transforms and the redactor may have led out of what this provider identifies (§10.2).
        check_envelope(shown)
    return identity(provider, Prepared(shown, codec.survey(shown), shown))


def _checked(resolution: Any, expected_identity: str | None) -> Consultation:
    """Validate *resolution* in the order that §9 fixes."""
    absent = object()
    if getattr(resolution, "context_identity", absent) is absent:
        return _refused(HostError.APPROVAL_RESOLVER_FAILED, "the approval resolver returned no resolution")
    if resolution.context_identity != expected_identity:
        return _refused(HostError.APPROVAL_IDENTITY_MISMATCH, "the approval is for another context")
    outcome, carried = getattr(resolution, "outcome", None), getattr(resolution, "verdict", None)
    if outcome not in tuple(ApprovalOutcome) or (carried is None) != (outcome == ApprovalOutcome.UNRESOLVED):
        return _refused(HostError.APPROVAL_RESOLVER_FAILED, "the resolution's outcome and verdict do not fit")
    if carried is None:
        return _refused(HostError.APPROVAL_UNRESOLVED, "the approval resolver could not decide")
    try:
        verdict = verdict_of_object(carried)
    except NotAVerdict:
        return _refused(HostError.VERDICT_INVALID, "what the resolution carries is not a verdict")
    lifts = outcome == ApprovalOutcome.APPROVE
    if lifts != verdict.decision.permits:
        wanted = "a permit" if lifts else "a deny"
        return _refused(HostError.VERDICT_INVALID, f"this outcome must carry {wanted}")
    assert lifts or verdict.decision is Decision.DENY
    return Consultation(verdict, lifts)


def _refused(error: HostError, why: str) -> Consultation:
    return Consultation(Verdict.host_error(error, why), False)
