"""Where the SDK's emitter (0.1.0b3) departs from AGENT-HOOKS-0.1 and ours follows the specification.

The list is ``docs/divergences.md``; each entry has its own test in ``test_divergences.py``. Here are only those
that a random case can meet, as what they change in the SDK's record.
"""

from __future__ import annotations

from typing import Any

from agent_hooks import CompositionProfile, Verdict

from hookbus_client import NotAVerdict
from hookbus_client.gate import verdict_of_object
from tests.client.cases import Case

_TRANSFORM_ERRORS = ("host_error:transform_invalid", "host_error:transform_target_forbidden")
_APPROVAL_ERRORS = (
    "host_error:approval_resolver_failed",
    "host_error:approval_unresolved",
    "host_error:approval_identity_mismatch",
    "host_error:verdict_invalid",
    "host_error:context_invalid",
)


def apply(record: dict[str, Any], case: Case) -> dict[str, Any]:
    """Return the SDK's *record* of *case* as the specification wants it."""
    expected = dict(record)
    reason = record["verdict"].get("reason")
    profile = case.composition.profile
    told = record.get("verdicts", [])
    # D2, §7.4: a failed fold that leaves interceptors unasked is a truncation in run_all too.
    if (
        profile is CompositionProfile.SEQUENTIAL_RUN_ALL
        and reason in _TRANSFORM_ERRORS
        and 0 < len(told) < record["interceptors_registered"]
    ):
        expected["fold_truncated"] = True
    # D4, §10.3: who was consulted stays known when the consultation failed.
    consultation_failed = reason in _APPROVAL_ERRORS and reason != "host_error:context_invalid"
    if record.get("resolved_by") == "rejection" and record["decided_by"] is None and consultation_failed:
        expected["decided_by"] = _consulted(case, told)
    # D8, §10.3: a transform that could not be applied is decided by nobody, an approver's too.
    of_an_interceptor = any(summary.get("reason") == reason for summary in told)
    if record.get("resolved_by") == "approval" and reason in _TRANSFORM_ERRORS and not of_an_interceptor:
        expected["decided_by"] = None
    # D5, §5.1 and §7.3: the warnings of every verdict of the emission are recorded, whatever became of it.
    if told:
        expected["verdict"] = dict(record["verdict"])
        expected["verdict"].pop("warnings", None)
        if warnings := _warnings(case, record):
            expected["verdict"]["warnings"] = warnings
    return expected


def without_host_message(record: dict[str, Any]) -> dict[str, Any]:
    """Return *record* without the message of a verdict that the host made: the contract words those."""
    verdict = dict(record["verdict"])
    if str(verdict.get("reason")).startswith("host_error:"):
        verdict.pop("message", None)
    return {**record, "verdict": verdict}


def _consulted(case: Case, told: list[dict[str, Any]]) -> int | None:
    match case.composition.profile:
        case CompositionProfile.SEQUENTIAL_FIRST_DENY:
            return len(told) - 1
        case CompositionProfile.PARALLEL_UNANIMOUS:
            return None
    return next((summary["index"] for summary in told if summary["decision"] == "deny"), None)


def _warnings(case: Case, record: dict[str, Any]) -> list[dict[str, Any]]:
    told = record["verdicts"]
    # What each interceptor gave, by its place, and after the deny that was consulted about what the approver gave.
    given: dict[float, Verdict] = {}
    for index, behaviour in enumerate(case.behaviours[: len(told)]):
        try:
            given[index] = verdict_of_object(behaviour)
        except (NotAVerdict, TypeError):
            continue
    consulted = case.resolution is not None and record.get("resolved_by") is not None
    # An approver was believed who lifted something: the last consultation, or one before it when a fold resumed.
    denies = [index for index, summary in enumerate(told) if summary["decision"] == "deny"]
    resumed = len(denies) > 1
    sequential = case.composition.profile is CompositionProfile.SEQUENTIAL_FIRST_DENY
    believed = (
        record.get("resolved_by") == "approval"
        or record["verdict"].get("reason") not in _APPROVAL_ERRORS
        or (sequential and resumed)
    )
    if consulted and case.resolution is not None and case.resolution.verdict is not None and believed:
        # A fold consults where it stands, so what comes later is seen later; other profiles consult at the end.
        place = denies[0] + 0.5 if sequential and denies else len(told)
        given[place] = verdict_of_object(case.resolution.verdict)
    united: list[dict[str, Any]] = []
    for place in sorted(given):
        for warning in given[place].warnings:
            wire = warning.to_wire()
            if "message" in wire and len(wire["message"].encode()) > 256:
                wire["message"] = wire["message"].encode()[:256].decode("utf-8", "ignore") + "…"
            if wire not in united:
                united.append(wire)
    return united
