"""Verdicts by name: their wire form, and that none of them can be another by accident."""

from __future__ import annotations

import pytest
from agent_hooks import Evidence, InterceptorResponse

from hookbus_interceptors.authoring import allow, deny, escalate, replace, warning


def test_allow_permits_and_carries_labels_and_warnings() -> None:
    verdict = allow(labels=["untrusted"], warnings=[warning("odd:hour", "late")], evidence=Evidence("a"))
    assert verdict.to_wire() == {
        "decision": "allow",
        "warnings": [{"reason": "odd:hour", "message": "late"}],
        "evidence": {"artefact": "a"},
        "result_labels": ["untrusted"],
    }
    assert allow().to_wire() == {"decision": "allow"}


def test_deny_cannot_be_lifted_and_escalate_can() -> None:
    assert not deny("a", "b").is_liftable
    assert deny("a", "b").to_wire() == {"decision": "deny", "reason": "a", "message": "b"}
    assert escalate("a", parameters={"amount": 7}).is_liftable
    assert escalate("a", parameters={"amount": 7}).to_wire()["approval"] == {"amount": 7}
    assert escalate("a").to_wire() == {"decision": "deny", "reason": "a", "approval": {}}


def test_replace_carries_one_value_null_too() -> None:
    assert replace("$target.a[0]", None, labels=["x"]).transform is not None
    wire = replace("$target.content", "***", reason="redact:card").to_wire()
    assert wire["transform"] == {"path": "$target.content", "value": "***"}
    for value in (None, [], {"a": 1}):
        read = InterceptorResponse.parse(replace("$target.content", value).to_wire()).verdict
        assert read.transform is not None
        assert read.transform.value == value


def test_a_path_outside_of_the_target_is_refused() -> None:
    with pytest.raises(ValueError, match="rooted at"):
        replace("$.session.id", "another")


def test_reserved_reasons_are_refused() -> None:
    for make in (deny, escalate):
        with pytest.raises(ValueError, match="host_error"):
            make("host_error:interceptor_failed")
