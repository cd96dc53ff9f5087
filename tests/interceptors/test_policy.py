"""What no rule permits is denied, whatever the engine makes of a rule."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import Decision
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import Answer, TestClient
from hookbus_interceptors.fleet.plan import FleetPlan
from hookbus_interceptors.policy.configuration import PolicyConfiguration, Rule
from hookbus_interceptors.policy.expression import MAX_CHARACTERS
from hookbus_interceptors.policy.interceptor import Policy
from tests.worker.asking import Asker, context, eventually
from tests.worker.processes import ROOT, WorkerProcess

POLICY = "hookbus_interceptors.policy.interceptor:Policy"
ALLOW = {"name": "all", "when": "true", "then": "allow"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


def policy(*rules: dict[str, Any]) -> Policy:
    return Policy(PolicyConfiguration.model_validate({"rules": rules}))


def rule(when: str, then: str = "allow", name: str = "rule", **more: Any) -> dict[str, Any]:
    if then == "transform":
        more = {"path": "$target.amount", "value": "1", **more}
    return {"name": name, "when": when, "then": then, **more}


def calling(args: dict[str, Any], *rules: dict[str, Any], tool: str = "pay", **envelope: Any) -> Answer:
    return TestClient(policy(*rules)).pre_tool_call(tool, args, **envelope)


# ---- what the rules say ------------------------------------------------------------------------------


def test_what_no_rule_permits_is_denied() -> None:
    for rules in ([], [rule("tool_call.name == 'read'")]):
        answer = calling({}, *rules)
        assert (answer.reason, answer.escalates) == ("policy:no-rule", False)


def test_a_rule_answers_only_at_its_points() -> None:
    client = TestClient(policy(rule("true", points=["output", "pre_tool_call"])))
    assert client.output("x").permits
    assert client.pre_tool_call("pay").permits
    for answer in (client.input("x"), client.agent_startup(), client.post_tool_call("pay")):
        assert answer.reason == "policy:no-rule"


def test_a_rule_allows_denies_asks_and_changes() -> None:
    assert calling({}, rule("true")).decision is Decision.ALLOW
    denied = calling({}, rule("true", "deny", message="Not here."))
    assert (denied.reason, denied.message, denied.escalates) == ("policy:rule", "Not here.", False)
    asked = calling({}, rule("true", "escalate", message="Is it paid?", approver="lead"))
    assert asked.escalates
    assert (asked.reason, asked.message) == ("policy:rule", "Is it paid?")
    assert asked.verdict.approval == {"rule": "rule", "approver": "lead"}
    changed = calling({"amount": 7, "to": "x"}, rule("true", "transform", value="tool_call.args.amount + 1"))
    assert changed.permits
    assert changed.target == {"amount": 8, "to": "x"}


def test_what_an_agent_leaves_out_of_the_envelope_can_be_asked_for() -> None:
    by_a_person = rule("has(actor.kind) && actor.kind == 'human'")
    assert calling({}, by_a_person, actor={"id": "u", "kind": "human"}).permits
    assert calling({}, by_a_person).reason == "policy:no-rule"
    assert calling({}, rule("tenant.id != 'evil'")).reason == "policy:undecided"
    assert calling({}, rule("tenant.id != 'evil'"), tenant="good").permits


# ---- what no rule can decide -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [
        "tool_call.args.missing == 1",
        "tool_call.args.missing != 1",
        "!(tool_call.args.missing == 1)",
        "has(tool_call.missing.field)",
        "tool_call.args.text > 100",
        "!(tool_call.args.text > 100)",
        "tool_call.args.none <= 100",
        "tool_call.args.yes <= 100",
        "tool_call.args.list <= 100",
        "tool_call.args.list[7] == 1",
        "double(tool_call.args.nan) > 100.0",
        "!(double(tool_call.args.nan) > 100.0)",
        "0.0 / 0.0 <= 1.0",
        "tool_call.args.amount / 0 > 1",
        "9223372036854775807 + tool_call.args.amount > 0",
        "tool_call.args.text.matches('(')",
        "tool_call.args.amount.startsWith('1')",
        "tool_calls.name == 'pay'",
        "model.id == 'x'",
        "permitted(tool_call)",
        # No value but true is true.
        "1",
        "'true'",
        "null",
        "[true]",
        "{'decision': 'allow'}",
        "0.0 / 0.0",
        "b'true'",
        "timestamp('2026-11-30T00:00:00Z')",
        "duration('1h')",
        "tool_call",
        "type(true)",
    ],
)
@pytest.mark.parametrize("then", ["allow", "deny", "escalate", "transform"])
def test_a_rule_that_cannot_be_decided_denies(when: str, then: str) -> None:
    args = {"amount": 7, "text": "7", "none": None, "yes": True, "list": [1], "nan": "NaN"}
    answer = calling(args, rule(when, then), ALLOW)
    assert (answer.reason, answer.escalates) == ("policy:undecided", False)
    assert answer.error is None


@pytest.mark.parametrize(
    "value",
    ["tool_call.args.missing", "0.0 / 0.0", "b'x'", "timestamp('2026-11-30T00:00:00Z')", "{1: 2}", "1 / 0"],
)
def test_a_value_that_cannot_be_decided_or_is_no_json_denies(value: str) -> None:
    answer = calling({"amount": 7}, rule("true", "transform", value=value))
    assert (answer.reason, answer.escalates) == ("policy:undecided", False)


def test_a_value_has_no_place_where_the_path_leads_nowhere() -> None:
    assert not calling({"amount": 7}, rule("true", "transform", path="$target.a.b")).permits


def test_nothing_of_a_payload_is_told() -> None:
    answer = calling({"key": "hunter2"}, rule("tool_call.args[tool_call.args.key] == 1"))
    assert answer.reason == "policy:undecided"
    assert "hunter2" not in f"{answer.verdict}"


@settings(deadline=None)
@given(JSON)
def test_of_all_that_an_expression_can_give_only_true_permits(result: Any) -> None:
    answer = calling({"result": result}, rule("tool_call.args.result"))
    assert answer.permits is (result is True)
    assert answer.reason in (None, "policy:no-rule" if result is False else "policy:undecided")


# ---- several rules -----------------------------------------------------------------------------------

RULES = st.lists(
    st.tuples(
        st.sampled_from(["allow", "deny", "escalate", "transform"]),
        st.sampled_from(["true", "false", "1", "tool_call.args.missing"]),
    ),
    max_size=5,
)


def judged(rules: list[tuple[str, str]]) -> tuple[Decision, bool]:
    named = [rule(when, then, f"rule-{number}") for number, (then, when) in enumerate(rules)]
    verdict = policy(*named).intercept(context({"amount": 7}))
    return verdict.decision, verdict.is_liftable


@settings(deadline=None)
@given(RULES, st.randoms(use_true_random=False))
def test_the_order_of_the_rules_decides_nothing(rules: list[tuple[str, str]], order: random.Random) -> None:
    shuffled = order.sample(rules, len(rules))
    assert judged(shuffled) == judged(rules)


@settings(deadline=None)
@given(RULES, st.sampled_from(["deny", "escalate"]), st.sampled_from(["true", "false", "1"]))
def test_one_more_rule_that_denies_or_asks_never_permits(
    rules: list[tuple[str, str]], then: str, when: str
) -> None:
    decision, liftable = judged(rules)
    now, now_liftable = judged([*rules, (then, when)])
    if not decision.permits:
        assert not now.permits
    if then == "deny" and when == "true":
        assert (now, now_liftable) == (Decision.DENY, False)
    if not decision.permits and not liftable and any(when == "true" for _, when in rules):
        assert not now_liftable


@settings(deadline=None)
@given(RULES)
def test_the_strictest_rule_that_is_met_decides(rules: list[tuple[str, str]]) -> None:
    met = [then for then, when in rules if when == "true"]
    undecided = any(when not in ("true", "false") for _, when in rules)
    changes = met.count("transform")
    if undecided or "deny" in met or changes > 1 or (changes and "escalate" in met) or not met:
        expected = (Decision.DENY, False)
    elif "escalate" in met:
        expected = (Decision.DENY, True)
    else:
        expected = (Decision.TRANSFORM if changes else Decision.ALLOW, False)
    assert judged(rules) == expected


def test_a_change_is_never_dropped_for_another_one_or_for_a_question() -> None:
    for other in (rule("true", "transform", "other"), rule("true", "escalate", "other")):
        answer = calling({"amount": 7}, rule("true", "transform"), other)
        assert (answer.reason, answer.escalates) == ("policy:conflict", False)


# ---- the file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"when": "tool_call.name =="}, r"rules.0.when: is not a CEL expression (line 1, column 18)"),
        ({"when": ""}, "rules.0.when: is not a CEL expression"),
        ({"when": "1" + "+1" * MAX_CHARACTERS}, "rules.0.when: String should have at most"),
        ({"then": "permit"}, "rules.0.then: Input should be"),
        ({"then": None}, "rules.0.then: Input should be"),
        ({"points": ["before_tool"]}, "rules.0.points.0: Input should be"),
        ({"points": []}, "rules.0.points: Tuple should have at least 1 item"),
        ({"name": "Two words"}, "rules.0.name: String should match"),
        ({"unless": "true"}, "rules.0.unless: Extra inputs"),
        ({"then": "transform"}, "rules.0: has path and value"),
        ({"value": "1"}, "rules.0: has path and value"),
        ({"then": "transform", "path": "amount", "value": "1"}, "rules.0.path: is not a path"),
        ({"then": "transform", "path": "$target.a b", "value": "1"}, "rules.0.path: is not a path"),
        ({"then": "transform", "path": "$target", "value": "1 +"}, "rules.0.value: is not a CEL expression"),
        (
            {"then": "transform", "path": "$target", "value": "1", "points": ["agent_startup"]},
            "rules.0: transforms at a point",
        ),
        ({"approver": "lead"}, "rules.0: names an approver"),
    ],
)
def test_a_rule_that_is_none_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        policy({**ALLOW, **change})
    error = caught.value.errors()[0]
    told = ".".join(map(str, error["loc"])) + ": " + error["msg"].removeprefix("Value error, ")
    assert told.startswith(why)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two rules have the same name"):
        policy(ALLOW, ALLOW)


def test_an_expression_of_the_greatest_length_is_compiled_and_decided() -> None:
    longest = "1" + "+1" * (MAX_CHARACTERS // 2 - 5) + " > 0"
    assert MAX_CHARACTERS - 10 < len(longest) <= MAX_CHARACTERS
    assert calling({}, rule(longest)).permits


def test_the_version_is_that_of_the_rules() -> None:
    versions = {calling({}, rule(when)).policy_version for when in ("true", "1 == 1", "true")}
    assert len(versions) == 2


@pytest.mark.anyio
async def test_a_worker_takes_up_changed_rules_and_keeps_the_old_ones_where_they_do_not_compile(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    def write(version: str, when: str) -> None:
        text = f'version = "{version}"\n[[rules]]\nname = "all"\nwhen = "{when}"\nthen = "allow"\n'
        (tmp_path / "new").write_text(text)
        # At once: half a file may be rules, too.
        (tmp_path / "new").replace(tmp_path / "rules.toml")

    write("1", "true")
    arguments = ("--interceptor-config", str(tmp_path / "rules.toml"), "--point", "pre_tool_call")
    async with Asker(shared_server.url) as asker:
        with WorkerProcess(POLICY, "policy", *arguments, url=asker.url, tenant=asker.tenant) as worker:
            before = await asker.ask()
            assert before.verdict == {"decision": "allow"}
            assert before.headers["Hb-Policy"].startswith("1+")

            async def complains() -> bool:
                return any("NOT RELOADED" in line and "is not a CEL expression" in line for line in worker.output)

            write("2", "true &&")
            await eventually(complains)
            assert (await asker.ask()).headers["Hb-Policy"] == before.headers["Hb-Policy"]

            async def denies() -> bool:
                return bool((await asker.ask()).verdict["decision"] == "deny")

            write("3", "tool_call.name == 'other'")
            await eventually(denies)
            after = await asker.ask()
            assert after.verdict["reason"] == "policy:no-rule"
            assert after.headers["Hb-Policy"].startswith("3+")


# ---- the page and the example ------------------------------------------------------------------------

HUMAN = {"id": "u", "kind": "human"}
PAGE = (ROOT / "docs" / "interceptors" / "policy.md").read_text("utf-8")


def test_the_rules_and_the_tables_of_the_page_are_what_they_say() -> None:
    rules, *tables = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]
    answer = TestClient(policy(*rules["rules"])).pre_tool_call("refund", {"amount": 500}, actor=HUMAN)
    assert (answer.reason, answer.escalates) == ("policy:large-refund", True)
    assert [FleetPlan.model_validate(each).interceptors.keys() for each in tables[:2]] == [{"policy"}] * 2
    rows = [line.partition("|")[2].partition("|")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    assert set(Rule.model_fields) <= {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    ("tool", "args", "decision", "escalates"),
    [
        ("read_order", {}, "allow", False),
        ("search_orders", {"limit": 500}, "transform", False),
        ("refund", {"amount": 50}, "allow", False),
        ("refund", {"amount": 500}, "deny", True),
        ("refund", {"amount": "500"}, "deny", False),
        ("drop_table", {}, "deny", False),
    ],
)
def test_the_example_does_what_it_says(tool: str, args: dict[str, Any], decision: str, escalates: bool) -> None:
    client = TestClient(Policy.from_config(ROOT / "deploy" / "policies" / "rules.toml"))
    answer = client.pre_tool_call(tool, args, actor=HUMAN)
    assert (answer.decision.value, answer.escalates) == (decision, escalates)
