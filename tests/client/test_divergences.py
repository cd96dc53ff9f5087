"""Each place where the SDK's emitter departs from the specification: its value, and ours, by the clause.

``docs/divergences.md`` is the list; a test here fails when the SDK comes to agree, so that the entry can go.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_hooks import (
    AgentContextBuilder,
    ApprovalOutcome,
    ApprovalResolution,
    CompositionConfig,
    IdentityProvider,
    InterceptionEmitter,
    InterceptionRecord,
    Verdict,
)

from hookbus_client import BusEmitter
from tests.client.scripted import Local

pytestmark = pytest.mark.anyio

DOCUMENT = Path(__file__).parents[2] / "docs" / "divergences.md"


def tool_call(args: Any = None) -> dict[str, Any]:
    builder = AgentContextBuilder(agent_id="bot", framework="test", session_id="s")
    return builder.pre_tool_call(call_id="c", name="t", args={"x": 1} if args is None else args)


class Resolver:
    def __init__(self, resolution: Any) -> None:
        self._resolution = resolution

    def resolve(self, request: Any) -> Any:
        if callable(self._resolution):
            return self._resolution(request)
        return self._resolution


async def both(*behaviours: Any, context: dict[str, Any] | None = None, **configuration: Any) -> Any:
    """Return the SDK's record (or what it raised) and ours, of the same emission."""
    results: list[Any] = []
    for make in (InterceptionEmitter, BusEmitter):
        emitter = make(**configuration)
        for index, behaviour in enumerate(behaviours):
            emitter.register(Local(behaviour), f"s{index}")
        try:
            results.append(await emitter.emit_unchecked(copy.deepcopy(context or tool_call())))
        except Exception as error:
            results.append(error)
    return results


ESCALATE = {"decision": "deny", "approval": {}}
BENT = {"decision": "transform", "transform": {"path": "$target.missing", "value": 1}}


async def test_d1_a_bad_decision_is_not_copied_into_the_record() -> None:
    theirs, ours = await both({"decision": "SECRET"})
    assert "SECRET" in str(theirs.to_wire())
    assert "SECRET" not in str(ours.to_wire())
    assert ours.verdict.message == "malformed: the answer of 's0' is not a verdict"


async def test_d2_a_failed_fold_in_run_all_is_told_as_a_truncation() -> None:
    theirs, ours = await both(BENT, {"decision": "allow"}, composition=CompositionConfig.run_all())
    assert theirs.fold_truncated is None
    assert ours.fold_truncated is True


async def test_d3_a_resolver_that_returns_nothing_denies() -> None:
    theirs, ours = await both(ESCALATE, resolver=Resolver(None))
    assert isinstance(theirs, AttributeError)
    assert ours.verdict.reason == "host_error:approval_resolver_failed"
    assert ours.resolved_by == "rejection"


@pytest.mark.parametrize("composition", [CompositionConfig.first_deny(), CompositionConfig.run_all()])
async def test_d4_who_was_consulted_stays_known_when_the_consultation_fails(
    composition: CompositionConfig,
) -> None:
    unresolved = Resolver(lambda r: ApprovalResolution(ApprovalOutcome.UNRESOLVED, r.context_identity))
    theirs, ours = await both({"decision": "allow"}, ESCALATE, resolver=unresolved, composition=composition)
    assert theirs.decided_by is None
    assert ours.decided_by == 1


async def test_d5_warnings_are_recorded_whatever_becomes_of_the_emission() -> None:
    warned = {**BENT, "warnings": [{"reason": "w"}]}
    theirs, ours = await both({"decision": "allow", "warnings": [{"reason": "v"}]}, warned)
    assert theirs.verdict.warnings == ()
    assert [warning.reason for warning in ours.verdict.warnings] == ["v", "w"]


async def test_d5_a_rejection_keeps_its_own_warnings() -> None:
    rejection = Verdict.from_wire({"decision": "deny", "warnings": [{"reason": "mine"}]})
    reject = Resolver(lambda r: ApprovalResolution(ApprovalOutcome.REJECT, r.context_identity, rejection))
    theirs, ours = await both({**ESCALATE, "warnings": [{"reason": "v"}]}, resolver=reject)
    assert [warning.reason for warning in theirs.verdict.warnings] == ["v"]
    assert [warning.reason for warning in ours.verdict.warnings] == ["v", "mine"]


async def test_d6_a_transform_to_null_is_a_transform() -> None:
    theirs, ours = await both({"decision": "transform", "transform": {"path": "$target.x", "value": None}})
    assert theirs.verdict.reason == "host_error:verdict_invalid"
    assert ours.proceeds
    assert ours.verdict.decision.value == "transform"


async def test_d7_a_provider_that_returns_no_string_denies() -> None:
    theirs, ours = await both(
        {"decision": "allow"}, identity_provider=IdentityProvider("custom", lambda _context: 5)
    )
    assert isinstance(theirs, Exception)
    assert ours.verdict.reason == "host_error:context_invalid"


async def test_d7_a_provider_that_fails_after_a_transform_denies() -> None:
    def only_once(context: dict[str, Any]) -> str:
        if context["target"] != {"x": 1}:
            raise RuntimeError
        return "known"

    theirs, ours = await both(
        {"decision": "transform", "transform": {"path": "$target.x", "value": 2}},
        identity_provider=IdentityProvider("custom", only_once),
    )
    assert theirs.proceeds
    assert theirs.enforced_identity is None
    assert not ours.proceeds
    assert ours.verdict.reason == "host_error:context_invalid"


async def test_d8_an_approved_transform_that_cannot_be_applied_is_decided_by_nobody() -> None:
    approve = Resolver(
        lambda r: ApprovalResolution(ApprovalOutcome.APPROVE, r.context_identity, Verdict.from_wire(BENT))
    )
    theirs, ours = await both(ESCALATE, resolver=approve, composition=CompositionConfig.run_all())
    assert theirs.decided_by == 0
    assert ours.decided_by is None


async def test_d9_an_integer_in_a_transform_survives_exactly() -> None:
    targets = []
    for make in (InterceptionEmitter, BusEmitter):
        emitter = make(identity_provider=None)
        value = {"decision": "transform", "transform": {"path": "$target.x", "value": 2**64 + 1}}
        emitter.register(Local(value))
        targets.append((await emitter.emit(tool_call())).target)
    assert targets == [{"x": float(2**64)}, {"x": 2**64 + 1}]


async def test_d10_a_record_keeps_the_time_of_a_context_that_cannot_be_sent() -> None:
    theirs, ours = await both({"decision": "allow"}, context=tool_call({"x": float("nan")}))
    assert theirs.timestamp is None
    assert ours.timestamp is not None
    assert ours.verdict.reason == theirs.verdict.reason == "host_error:context_invalid"


async def test_d11_a_type_that_json_does_not_have_denies() -> None:
    theirs, ours = await both({"decision": "allow"}, context=tool_call({"x": {1, 2}}))
    assert isinstance(theirs, TypeError)
    assert ours.verdict.reason == "host_error:context_invalid"


async def test_d12_an_outcome_outside_the_three_is_a_failed_resolver() -> None:
    strange = Resolver(
        lambda r: SimpleNamespace(
            outcome="perhaps", context_identity=r.context_identity, verdict=Verdict.from_wire({"decision": "deny"})
        )
    )
    theirs, ours = await both(ESCALATE, resolver=strange)
    assert isinstance(theirs, InterceptionRecord)
    assert theirs.verdict.reason is None
    assert ours.verdict.reason == "host_error:approval_resolver_failed"


async def test_d13_a_name_that_json_escapes_is_a_name_like_any_other() -> None:
    theirs, ours = await both({"decision": "allow"}, context={**tool_call(), "é": 1})
    assert theirs.verdict.reason == "host_error:context_invalid"
    assert ours.proceeds


async def test_d14_an_integer_outside_the_projection_does_not_count() -> None:
    def beside(name: str) -> dict[str, Any]:
        context = tool_call()
        return {**context, "agent": {**context["agent"], name: 1, "n": 2**60}}

    theirs, ours = await both({"decision": "allow"}, context=beside("e"))
    assert theirs.proceeds
    assert ours.proceeds
    theirs, ours = await both({"decision": "allow"}, context=beside("é"))
    assert theirs.verdict.reason == "host_error:context_invalid"
    assert ours.proceeds


async def test_d15_an_empty_member_is_outside_the_grammar() -> None:
    empty = {"decision": "transform", "transform": {"path": '$target[""]', "value": 1}}
    theirs, ours = await both(empty, context=tool_call({"": 0}))
    assert theirs.proceeds
    assert ours.verdict.reason == "host_error:transform_invalid"


def test_every_divergence_is_listed_and_has_its_test() -> None:
    listed = set(re.findall(r"^\| D(\d+) \|", DOCUMENT.read_text("utf-8"), re.MULTILINE))
    tested = {name[6:].split("_")[0] for name in globals() if re.match(r"test_d\d+_", name)}
    assert listed == tested
