"""What meets a rule is for a person to decide, and the person is told what there is to decide."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hookbus_interceptors.approval_gate import USED, ApprovalGate, ApprovalGateConfiguration, Rule
from hookbus_interceptors.authoring.testing import Answer, TestClient


def gate(**rule: Any) -> TestClient:
    made = Rule(name="rule", message="Look at it.", **rule)
    return TestClient(ApprovalGate(ApprovalGateConfiguration(rules=(made,))))


def escalated(answer: Answer) -> bool:
    assert answer.permits or answer.reason == "approval-gate:rule"
    return answer.escalates


def test_what_meets_no_rule_proceeds() -> None:
    assert TestClient(ApprovalGate(ApprovalGateConfiguration())).pre_tool_call("wipe").permits


def test_a_tool_is_met_however_its_name_arrives() -> None:
    client = gate(tools=["delete_*"], except_tools=["delete_draft"])
    for name in ("delete_file", "Delete_File", "delete-file", "mcp__drive__delete_file", "drive.delete_file"):
        assert escalated(client.pre_tool_call(name)), name
    for name in ("undelete_file", "mcp__mail__delete_draft", "list_files"):
        assert not escalated(client.pre_tool_call(name)), name


def test_a_rule_may_be_about_tools_that_do_more_than_read() -> None:
    client = gate(acting=True)
    assert not escalated(client.pre_tool_call("get_file"))
    assert escalated(client.pre_tool_call("get_file", {"command": "rm"}))
    assert escalated(client.pre_tool_call("put_file"))


@pytest.mark.parametrize(
    ("amount", "above"),
    [
        (1000, False),
        (1000.01, True),
        (-5000, False),
        ("999.99", False),
        ("1,000.50", True),
        ("€ 1.000,50", True),
        ("1e9", True),
        ("a lot", True),
        ("NaN", True),
        (True, True),
        (None, True),
        ("", True),
    ],
)
def test_an_amount_above_the_threshold_is_met_and_so_is_one_that_is_no_number(amount: Any, above: bool) -> None:
    client = gate(argument="*amount*", above=1000)
    assert escalated(client.pre_tool_call("pay", {"orders": [{"totalAmount": amount}]})) is above


def test_a_threshold_is_not_met_by_a_call_without_such_an_argument() -> None:
    assert not escalated(gate(argument="amount", above=1000).pre_tool_call("pay", {"note": 5000}))


def test_an_argument_is_met_by_being_one_of_several_or_by_what_it_contains_or_by_being_there() -> None:
    one_of = gate(argument="role", equals=["admin", 1])
    assert escalated(one_of.pre_tool_call("set", {"role": "admin"}))
    assert escalated(one_of.pre_tool_call("set", {"role": 1}))
    assert not escalated(one_of.pre_tool_call("set", {"role": True}))
    contains = gate(argument="path", contains=r"^/etc/")
    assert escalated(contains.pre_tool_call("write", {"path": "/etc/passwd"}))
    assert not escalated(contains.pre_tool_call("write", {"path": "/tmp/x"}))
    present = gate(argument="bcc")
    assert escalated(present.pre_tool_call("send", {"bcc": None}))
    assert not escalated(present.pre_tool_call("send", {"cc": None}))


def test_unless_is_met_by_another_value_and_by_none_at_all() -> None:
    client = gate(argument="environment", unless=["test"])
    assert not escalated(client.pre_tool_call("deploy", {"environment": "test"}))
    assert escalated(client.pre_tool_call("deploy", {"environment": "live"}))
    assert escalated(client.pre_tool_call("deploy", {}))


def test_a_rule_may_be_about_a_tenant_an_agent_or_an_actor() -> None:
    assert escalated(gate(tenants=["acme"]).pre_tool_call("x", tenant="acme"))
    assert not escalated(gate(tenants=["acme"]).pre_tool_call("x", tenant="other"))
    assert not escalated(gate(tenants=["acme"]).pre_tool_call("x"))
    assert escalated(gate(agents=["clerk"]).pre_tool_call("x", agent="clerk"))
    service = gate(actor_kinds=["service"])
    assert escalated(service.pre_tool_call("x", actor={"id": "cron", "kind": "service"}))
    assert not escalated(service.pre_tool_call("x", actor={"id": "ann", "kind": "human"}))


def test_a_first_use_is_met_until_a_call_of_the_tool_has_gone_through() -> None:
    client = gate(tools=["deploy"], first_use=True)
    assert escalated(client.pre_tool_call("deploy"))
    used = client.post_tool_call("mcp__ci__Deploy", value="done").labels
    assert used == (f"{USED}deploy",)
    assert not escalated(client.pre_tool_call("deploy", labels={"approval-gate": used}))
    assert not escalated(client.pre_tool_call("deploy", labels={"hookbus": used}))
    assert escalated(client.pre_tool_call("deploy", labels={"hookbus": [f"{USED}other"]}))
    assert client.post_tool_call("other", value="done").labels == ()


def test_the_first_rule_that_is_met_gives_the_reason_and_all_are_told() -> None:
    rules = (
        Rule(
            name="large", message="Compare it with the invoice.", argument="amount", above=10, approver="finance"
        ),
        Rule(name="any", message="Any."),
    )
    answer = TestClient(ApprovalGate(ApprovalGateConfiguration(rules=rules))).pre_tool_call("pay", {"amount": 11})
    assert (answer.reason, answer.message) == ("approval-gate:large", "Compare it with the invoice.")
    assert answer.verdict.approval == {
        "tool": "pay",
        "rules": ["large", "any"],
        "argument": "amount",
        "approver": "finance",
    }


@pytest.mark.parametrize(
    "rule",
    [
        {"above": 5},
        {"equals": ["x"]},
        {"argument": "x", "contains": "("},
        {"argument": "x", "above": float("nan")},
    ],
)
def test_a_rule_that_could_not_be_met_as_it_is_meant_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Rule(name="rule", message="Look at it.", **rule)
