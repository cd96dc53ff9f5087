"""How several verdicts become one (AGENT-HOOKS-0.1 §7.3 to §7.5): pure functions over verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agent_hooks import (
    CompositionConfig,
    CompositionProfile,
    Decision,
    HostError,
    OnApproval,
    SynthesisPolicy,
    Verdict,
    VerdictSummary,
)

_FIELDS = ("decision", "reason", "message", "warnings", "approval", "transform", "evidence", "result_labels")


class Aggregate(NamedTuple):
    """The winning verdict of an emission and the index of the interceptor that gave it, where one did."""

    combined: Verdict
    decided_by: int | None


def aggregate(config: CompositionConfig, verdicts: Sequence[Verdict]) -> Aggregate:
    """Return the aggregate of *verdicts*, at least one, by the profile of *config*.

    Warnings of all and labels of the permits are united on it; a winning transform is not applied here.
    """
    unanimous = all(verdict.decision is Decision.ALLOW for verdict in verdicts)
    if config.profile is CompositionProfile.PARALLEL_UNANIMOUS and not unanimous:
        return Aggregate(_synthesized(HostError.COMPOSITION_DISAGREEMENT, config.on_disagreement, verdicts), None)
    highest = max(map(_severity, verdicts))
    if highest == 0:
        # The common case: everybody allows, and only metadata is left to unite.
        return Aggregate(united(verdicts[0], verdicts), None)
    top = [index for index, verdict in enumerate(verdicts) if _severity(verdict) == highest]
    winner = top[0]
    if highest == 1 and len(top) > 1:
        if not config.profile.is_sequential:
            return Aggregate(
                _synthesized(HostError.TRANSFORM_CONFLICT, config.on_transform_conflict, verdicts), None
            )
        # In a sequential profile transforms composed; the last one stands for all of them.
        winner = top[-1]
    return Aggregate(united(verdicts[winner], verdicts), winner)


def _severity(verdict: Verdict) -> int:
    if verdict.decision is Decision.DENY:
        return 3 if verdict.approval is None else 2
    return 1 if verdict.decision is Decision.TRANSFORM else 0


def _synthesized(error: HostError, policy: SynthesisPolicy | None, verdicts: Sequence[Verdict]) -> Verdict:
    what = {
        HostError.COMPOSITION_DISAGREEMENT: "the interceptors do not all allow",
        HostError.TRANSFORM_CONFLICT: "more than one interceptor would transform",
    }[error]
    liftable = policy is SynthesisPolicy.APPROVAL
    return united(Verdict.host_error(error, what, liftable=liftable), verdicts)


def united(combined: Verdict, verdicts: Iterable[Verdict]) -> Verdict:
    """Return *combined* with the warnings of all *verdicts* and, if it permits, the labels of their permits.

    First seen, first kept; labels of an emission that does not proceed are dropped (§7.3, §5.4).
    """
    warnings = tuple(dict.fromkeys(warning for verdict in verdicts for warning in verdict.warnings))
    labels: tuple[str, ...] = ()
    if combined.decision.permits:
        permits = [verdict for verdict in verdicts if verdict.decision.permits]
        labels = tuple(dict.fromkeys(label for verdict in permits for label in verdict.result_labels))
    changes: dict[str, Any] = {}
    if warnings and warnings != combined.warnings:
        changes["warnings"] = warnings
    if labels and labels != combined.result_labels:
        changes["result_labels"] = labels
    return replaced(combined, **changes) if changes else combined


def replaced(verdict: Verdict, **changes: Any) -> Verdict:
    """Return *verdict* with *changes*, whatever its reason.

    The SDK's constructor refuses the reserved reasons, which a host's own verdicts carry.
    """
    copy = object.__new__(Verdict)
    for field in _FIELDS:
        object.__setattr__(copy, field, changes.get(field, getattr(verdict, field)))
    return copy


def is_host_error(verdict: Verdict) -> bool:
    """Whether the host made *verdict* (§11) rather than an interceptor or a resolver."""
    return verdict.reason is not None and verdict.reason.startswith("host_error:")


def summaries(verdicts: Sequence[Verdict], names: Sequence[str | None]) -> tuple[VerdictSummary, ...]:
    """Return the record's summary of each verdict, without payload (§10.3)."""
    return tuple(
        VerdictSummary(index, verdict.decision, verdict.reason, name)
        for index, (verdict, name) in enumerate(zip(verdicts, names, strict=False))
    )


def resolved(config: CompositionConfig) -> CompositionConfig:
    """Return *config* as records carry it: the knobs its profile consults filled in, the others absent (§7.2)."""
    profile = config.profile
    match profile:
        case CompositionProfile.SEQUENTIAL_FIRST_DENY:
            return CompositionConfig(profile, on_approval=config.on_approval or OnApproval.STOP)
        case CompositionProfile.PARALLEL_STRICTEST:
            return CompositionConfig(
                profile, on_transform_conflict=config.on_transform_conflict or SynthesisPolicy.DENY
            )
        case CompositionProfile.PARALLEL_UNANIMOUS:
            return CompositionConfig(profile, on_disagreement=config.on_disagreement or SynthesisPolicy.DENY)
    return CompositionConfig(profile)
