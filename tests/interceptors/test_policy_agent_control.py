"""Rego and Cedar through the standard's own runtime: whatever they give, only an explicit decision permits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.policy.interceptor import Policy
from tests.fleet.processes import Up
from tests.interceptors import policy_environment
from tests.interceptors.policy_environment import IndexUnreachable, Judge
from tests.interceptors.test_policy import HUMAN, JSON
from tests.worker.asking import Asker, eventually
from tests.worker.processes import ROOT, WorkerProcess

TARGET = "hookbus_interceptors.policy.agent_control:AgentControlPolicy"
POLICIES = ROOT / "deploy" / "policies"
MANIFEST = """
agent_control_specification_version: "0.5.0-alpha.1"
metadata: {name: tests}
policies:
  rules: {type: rego, query: data.rules.verdict}
intervention_points:
  pre_tool_call:
    policy_target: "$.tool_call.args"
    policy_target_kind: tool_args
    policy: {id: rules}
"""
CEDAR = MANIFEST.replace("{type: rego, query: data.rules.verdict}", "{type: cedar, policy_path: rules.cedar}")
ALLOW = 'verdict := {"decision": "allow"}'
PERMIT = "permit (principal, action, resource);"
#: What the runtime says when nothing came out that could decide.
NO_DECISION = {"runtime_error:policy_invocation_failed", "runtime_error:policy_output_invalid"}


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return policy_environment.made()
    except IndexUnreachable:
        pytest.skip("agent-control-spec is not installed here and pip reaches no package index")


@pytest.fixture(scope="module")
def judge(python: Path) -> Iterator[Judge]:
    with Judge(python) as process:
        yield process


def call(args: dict[str, Any], name: str = "pay", **more: Any) -> dict[str, Any]:
    builder = AgentContextBuilder(agent_id="agent", framework="tests", session_id="session")
    return {**builder.pre_tool_call(call_id="call", name=name, args=args), **more}


def rego(*rules: str, manifest: str = MANIFEST, **more: Any) -> dict[str, Any]:
    text = "\n".join(["package rules", "import rego.v1", *rules])
    return {"manifest": manifest, "rego": {"rules": [text]}, **more}


def cedar(policies: str, manifest: str = CEDAR) -> dict[str, Any]:
    return {"manifest": manifest, "cedar": {"rules": policies}}


# ---- decisions ---------------------------------------------------------------------------------------


def test_a_policy_allows_denies_asks_and_changes(judge: Judge) -> None:
    gives = rego("verdict := input.snapshot.tool_call.args.answer")
    for answer, verdict in (
        ({"decision": "allow"}, {"decision": "allow"}),
        ({"decision": "deny", "reason": "r:x"}, {"decision": "deny", "reason": "r:x"}),
        ({"decision": "escalate", "reason": "r:x"}, {"decision": "deny", "reason": "r:x", "approval": {}}),
        ({"decision": "transform", "transform": {"path": "$target.a", "value": 1}},) * 2,
    ):
        assert judge.verdict(gives, call({"answer": answer})) == verdict


@pytest.mark.parametrize(
    "rule",
    [
        "other := 1",
        'verdict := {"decision": "allow"} if input.snapshot.tool_call.args.missing == 1',
        'verdict := {"decision": "allow"} if input.snapshot.tool_call.args.missing != 1',
        'verdict := {"decision": "allow"} if input.snapshot.tool_call.args.amount / 0 > 1',
        'verdict := {"decision": "allow"} if http.send({"method": "get", "url": "http://127.0.0.1:1"})',
        'verdict := {"decision": "allow"}\nverdict := {"decision": "deny"} if input.snapshot',
        "verdict := unknown_name",
        "verdict := to_number(input.snapshot.tool_call.args.nan)",
        "verdict := {}",
        'verdict := {"decision": null}',
        'verdict := {"decision": true}',
        'verdict := {"decision": "ALLOW"}',
        'verdict := {"decision": ["allow"]}',
        'verdict := {"result": {"decision": "allow"}}',
        'verdict := "allow"',
        'verdict := ["allow"]',
        "verdict := true",
        'verdict contains {"decision": "allow"}',
        'verdict := {"decision": "transform"}',
        'verdict := {"decision": "transform", "transform": {"path": "$.agent", "value": 1}}',
        'verdict := {"decision": "allow", "approval": {}}',
        'verdict := {"decision": "allow", "message": 1}',
        'verdict := {"decision": "allow", "reason": "host_error:interceptor_failed"}',
    ],
)
def test_rego_that_gives_no_decision_denies(judge: Judge, rule: str) -> None:
    verdict = judge.verdict(rego(rule), call({"amount": 7, "nan": "NaN"}))
    assert verdict["decision"] == "deny"
    assert "approval" not in verdict
    assert verdict["reason"].startswith("runtime_error:")


@pytest.mark.parametrize(
    "condition",
    [
        "context.tool_call.args.missing == 1",
        "context.tool_call.args.missing != 1",
        "context.tool_call.args.text > 100",
        "context.tool_call.args.fraction > 100",
        "9223372036854775807 + context.tool_call.args.amount > 0",
        "context.tool_call.args.amount",
    ],
)
@pytest.mark.parametrize("effect", ["permit", "forbid"])
def test_cedar_that_cannot_be_decided_denies_although_the_engine_would_pass_over_it(
    judge: Judge, effect: str, condition: str
) -> None:
    policies = f"{PERMIT}\n{effect} (principal, action, resource) when {{ {condition} }};"
    verdict = judge.verdict(cedar(policies), call({"amount": 7, "text": "7", "fraction": 1.5}))
    assert (verdict["decision"], verdict["reason"]) == ("deny", "runtime_error:policy_invocation_failed")


def test_a_point_and_a_tool_that_the_manifest_does_not_name_are_denied(judge: Judge) -> None:
    named = MANIFEST.replace("    policy: ", '    tool_name_from: "$.tool_call.name"\n    policy: ')
    named += "tools: {pay: {type: Tool, id: pay}}\n"
    assert judge.verdict(rego(ALLOW, manifest=named), call({}))["decision"] == "allow"
    verdict = judge.verdict(rego(ALLOW, manifest=named), call({}, "mcp__bank__pay"))
    assert verdict["reason"] == "runtime_error:tool_unknown"
    elsewhere = AgentContextBuilder(agent_id="a", framework="f", session_id="s").output(content="x")
    verdict = judge.verdict(rego(ALLOW), elsewhere)
    assert verdict["reason"] == "runtime_error:intervention_point_unknown"


NEARLY = st.fixed_dictionaries(
    {"decision": st.sampled_from(["allow", "deny", "escalate", "transform", "Allow", "permit", " allow"]) | JSON},
    optional={
        "reason": st.sampled_from(["a:b", "host_error:x", "runtime_error:x"]) | JSON,
        "message": JSON,
        "approval": JSON,
        "warnings": JSON,
        "evidence": JSON,
        "result_labels": JSON,
        "transform": st.fixed_dictionaries({"path": st.sampled_from(["$target.a", "$target", "$.a"])}) | JSON,
        "effects": JSON,
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answer=JSON | NEARLY)
def test_of_all_that_a_policy_can_give_only_an_explicit_decision_permits(judge: Judge, answer: Any) -> None:
    gives = rego("verdict := input.snapshot.tool_call.args.answer")
    verdict = judge.verdict(gives, call({"answer": answer}))
    decided = answer.get("decision") if isinstance(answer, dict) else None
    if verdict["decision"] == "deny":
        assert decided in ("deny", "escalate") or verdict["reason"] in NO_DECISION | {
            "runtime_error:transform_invalid",
            "runtime_error:transform_target_forbidden",
        }
    else:
        assert verdict["decision"] == decided
        assert decided in ("allow", "transform")
    if isinstance(answer, dict) and answer == {"decision": "allow"}:
        assert verdict == {"decision": "allow"}


# ---- the texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (rego("verdict := {"), "the runtime refuses it (rules/0.rego, line 3, column 13)"),
        (cedar("permitt (principal, action, resource);"), "the runtime refuses it"),
        (rego(ALLOW, manifest="a: ["), "the manifest is none"),
        (rego(ALLOW, manifest="- a"), "the manifest is none (line 1, column 1)"),
        (rego(ALLOW, manifest=MANIFEST.replace("0.5.0-alpha.1", "9")), "the runtime refuses it"),
        (rego(ALLOW, manifest=MANIFEST.replace("pre_tool_call:", "before:")), "the manifest is none"),
        ({"manifest": MANIFEST}, "there is no text for the policy 'rules'"),
        ({"manifest": MANIFEST, "rego": {"rules": []}}, "there is no text for the policy 'rules'"),
        ({"manifest": CEDAR}, "the policy 'rules' says policy_path"),
        (rego(ALLOW) | {"cedar": {"others": PERMIT}}, "the manifest has no policy 'others'"),
        (rego(ALLOW) | {"cedar": {"rules": PERMIT}}, "the policy 'rules' says policy_set"),
        (rego(ALLOW, data={"limits": "[1]"}), "the data 'limits' are not a JSON object"),
        (rego(ALLOW, manifest=MANIFEST.replace("verdict}", "verdict, data_paths: [/x]}")), "says data_paths"),
        (cedar(PERMIT, CEDAR.replace("rules.cedar}", "x, entities_path: /x}")), "says entities_path"),
        (
            {"manifest": MANIFEST.replace("rego, query: data.rules.verdict", "test, verdict: {decision: allow}")},
            "the policy 'rules' says type, verdict",
        ),
        (rego(ALLOW, manifest=MANIFEST.replace("    policy: {id: rules}\n", "")), "pre_tool_call' has no policy"),
        (rego(ALLOW, manifest=MANIFEST.replace("id: rules", "id: rules, data_paths: [/x]")), "says data_paths"),
    ],
)
def test_what_is_no_policy_or_leads_to_what_nobody_watches_is_refused(
    judge: Judge, wrong: dict[str, Any], why: str
) -> None:
    answer = judge.verdict(wrong, call({}))
    assert answer["refused"].startswith("the policy cannot be used: ")
    assert why in answer["refused"]


def test_rego_reads_the_documents_that_it_is_given(judge: Judge) -> None:
    limited = 'verdict := {"decision": "allow"} if input.snapshot.tool_call.args.amount <= data.limits.most'
    for most, decision in ((10, "allow"), (5, "deny")):
        given = rego(limited, data={"limits": json.dumps({"most": most})})
        assert judge.verdict(given, call({"amount": 7}))["decision"] == decision


# ---- in a worker -------------------------------------------------------------------------------------


class OwnEnvironment(WorkerProcess):
    """A worker that another interpreter runs."""

    def __init__(self, python: Path, *arguments: str, asker: Asker) -> None:
        super().__init__(TARGET, "policy", *arguments, url=asker.url, tenant=asker.tenant)
        self._command[0] = str(python)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_worker_with_the_older_sdk_answers_and_keeps_the_old_policy_where_a_new_one_does_not_compile(
    python: Path, shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "rules.rego").write_text(f"package rules\n{ALLOW}\n")
    config = tmp_path / "policy.toml"
    config.write_text('version = "1"\nmanifest = "manifest.yaml"\n[rego]\nrules = ["rules.rego"]\n')

    def change(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(tmp_path / "rules.rego")

    async with Asker(shared_server.url) as asker:
        arguments = ("--interceptor-config", str(config), "--point", "pre_tool_call")
        with OwnEnvironment(python, *arguments, asker=asker) as worker:
            before = await asker.ask()
            assert before.verdict == {"decision": "allow"}
            assert re.fullmatch(r"1\+[0-9a-f]{12}", before.headers["Hb-Policy"])

            async def complains() -> bool:
                return any("NOT RELOADED" in line and "rules/0.rego, line 3" in line for line in worker.output)

            change("package rules\nverdict := {\n")
            await eventually(complains)
            assert (await asker.ask()).headers["Hb-Policy"] == before.headers["Hb-Policy"]

            async def denies() -> bool:
                return bool((await asker.ask()).verdict["decision"] == "deny")

            change('package rules\nverdict := {"decision": "deny", "reason": "rules:closed"}\n')
            await eventually(denies)
            after = await asker.ask()
            assert after.verdict["reason"] == "rules:closed"
            assert after.headers["Hb-Policy"] != before.headers["Hb-Policy"]


CALLS: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("find_customer", {}, None),
    ("search_orders", {"limit": 5}, HUMAN),
    ("search_orders", {"limit": 500}, HUMAN),
    ("search_orders", {}, HUMAN),
    ("search_orders", {"limit": None}, HUMAN),
    ("refund", {"amount": 100}, HUMAN),
    ("refund", {"amount": 101}, HUMAN),
    ("refund", {"amount": 50}, None),
    ("refund", {"amount": 50}, {"id": "s", "kind": "service"}),
    ("refund", {"amount": -5}, HUMAN),
    ("refund", {"amount": "50"}, HUMAN),
    ("refund", {"amount": None}, HUMAN),
    ("refund", {"amount": True}, HUMAN),
    ("refund", {"amount": [1]}, HUMAN),
    ("refund", {}, HUMAN),
    ("drop_table", {}, HUMAN),
    ("mcp__shop__refund", {"amount": 5}, HUMAN),
]


@pytest.mark.parametrize(("tool", "args", "actor"), CALLS)
def test_the_examples_in_the_three_languages_decide_alike(
    judge: Judge, tool: str, args: dict[str, Any], actor: dict[str, Any] | None
) -> None:
    asked = call(args, tool, **({} if actor is None else {"actor": actor}))
    in_cel = TestClient(Policy.from_config(POLICIES / "rules.toml")).ask(asked)
    expected = (in_cel.decision.value, in_cel.escalates, in_cel.transform and in_cel.transform.to_wire())

    def text(name: str) -> str:
        return (POLICIES / name).read_text("utf-8")

    for settings_of in (
        {
            "manifest": text("rego/manifest.yaml"),
            "rego": {"calls": [text("rego/calls.rego")]},
            "data": {"limits": text("rego/limits.json")},
        },
        {"manifest": text("cedar/manifest.yaml"), "cedar": {"calls": text("cedar/calls.cedar")}},
    ):
        verdict = judge.verdict(settings_of, asked)
        assert (verdict["decision"], "approval" in verdict, verdict.get("transform")) == expected


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_fleet_of_the_examples_serves(python: Path, tmp_path: Path) -> None:
    text = (POLICIES / "fleet.toml").read_text("utf-8")
    assert text.count('"../../build/policy/bin/python"') == 2
    text = text.replace("../../build/policy/bin/python", str(python))
    text = re.sub(r'config = "(\w+.toml)"', rf'config = "{POLICIES}/\1"', text)
    path = tmp_path / "fleet.toml"
    path.write_text(text + "[server]\nport = 0\n")
    with Up(path, workers=3) as up:
        for name in ("policy/1", "policy-rego/1", "policy-cedar/1"):
            assert up.wait_for(rf"│ {name} .* serving .* (1\+[0-9a-f]{{12}})")
