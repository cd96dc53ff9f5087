"""Verdicts by their plain names: allow, deny, escalate, replace (AGENT-HOOKS-0.1 §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_hooks import Decision, Evidence, Transform, Verdict, Warning

from hookbus.codec import Json


def allow(
    *, warnings: Iterable[Warning] = (), labels: Iterable[str] = (), evidence: Evidence | None = None
) -> Verdict:
    """Return a verdict that lets the action proceed.

    *labels* are kept with the data that the action produces, and come back as ``source_labels`` where later
    questions derive from it (§5.4).
    """
    return Verdict(Decision.ALLOW, warnings=tuple(warnings), result_labels=tuple(labels), evidence=evidence)


def deny(
    reason: str, message: str | None = None, *, warnings: Iterable[Warning] = (), evidence: Evidence | None = None
) -> Verdict:
    """Return a verdict that ends the action, which nobody can lift.

    *reason* is a stable token that operators search for, such as ``db:no-drops``; *message* is for whoever reads
    the refusal. Neither may quote the payload: both are kept in records. Raises ValueError for a reserved reason.
    """
    return Verdict(Decision.DENY, reason, message, warnings=tuple(warnings), evidence=evidence)


def escalate(
    reason: str,
    message: str | None = None,
    *,
    parameters: Mapping[str, Json] | None = None,
    warnings: Iterable[Warning] = (),
    evidence: Evidence | None = None,
) -> Verdict:
    """Return a deny that a person may lift (§9); with nobody to ask it stays a deny.

    *parameters* go to the approver. Say in *message* what there is to decide.
    """
    approval = dict(parameters or {})
    return Verdict(Decision.DENY, reason, message, tuple(warnings), approval, evidence=evidence)


def replace(
    path: str,
    value: Json,
    *,
    reason: str | None = None,
    message: str | None = None,
    warnings: Iterable[Warning] = (),
    labels: Iterable[str] = (),
    evidence: Evidence | None = None,
) -> Verdict:
    """Return a verdict that lets the action proceed with *value* at *path*, such as ``$target.content``.

    ``$target`` alone is the whole target. Members are written ``.name`` or ``["name"]`` in ``A-Z a-z 0-9 _ -``,
    indices ``[0]``; what cannot be written so is replaced with its parent. A path that does not resolve denies,
    and so do two transforms of one question in a parallel profile: :func:`allow` when there is nothing to change.
    Raises ValueError for a path that does not begin at ``$target``. (§5.2.)
    """
    transform = Transform(path, value)
    return Verdict(
        Decision.TRANSFORM,
        reason,
        message,
        tuple(warnings),
        None,
        transform,
        evidence,
        result_labels=tuple(labels),
    )


def warning(reason: str, message: str | None = None) -> Warning:
    """Return a recorded concern, for the ``warnings`` of any verdict; it changes nothing (§5.1)."""
    return Warning(reason, message)
