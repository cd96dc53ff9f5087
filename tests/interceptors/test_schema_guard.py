"""A call is of a tool that is known, by its exact name, with arguments that its schema permits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hookbus_interceptors.authoring.testing import Answer, TestClient
from hookbus_interceptors.configuration import ConfigurationInvalid
from hookbus_interceptors.schema_guard import SchemaGuard, SchemaGuardConfiguration
from tests.interceptors.conversing import ask

SEND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1},
        "priority": {"enum": ["low", "high"]},
        "copies": {"type": "integer", "minimum": 0, "maximum": 3},
    },
    "required": ["to"],
}
GOOD = {"to": ["a@b.example"], "priority": "low", "copies": 1}
CATALOGUE = json.dumps(
    [{"name": "send_mail", "schema": SEND}, {"type": "function", "function": {"name": "ping", "parameters": {}}}]
)


def guard(catalogue: str | None = CATALOGUE, **settings: Any) -> SchemaGuard:
    return SchemaGuard(SchemaGuardConfiguration(catalogue=catalogue, **settings))


def calling(name: str, args: dict[str, Any], interceptor: SchemaGuard | None = None, **shown: Any) -> Answer:
    return ask(interceptor or guard(), name, args, [], **shown)


def test_a_call_that_its_schema_permits_proceeds() -> None:
    assert calling("send_mail", GOOD).permits
    assert calling("ping", {}).permits


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"to": "a@b.example"}, "to"),
        ({"to": []}, "to"),
        ({"to": ["a@b.example", 7]}, "to[1]"),
        ({"to": ["nobody"]}, "to[0]"),
        ({"priority": "urgent"}, "priority"),
        ({"priority": "LOW"}, "priority"),
        ({"priority": "ｌｏｗ"}, "priority"),
        ({"copies": True}, "copies"),
        ({"copies": 4}, "copies"),
        ({"copies": 1.5}, "copies"),
        ({"bcc": ["m@evil.example"]}, "The arguments"),
        ({"То": ["m@evil.example"]}, "The arguments"),
        ({"TO": ["m@evil.example"]}, "The arguments"),
    ],
)
def test_arguments_that_the_schema_does_not_permit_are_denied_and_the_place_is_told(
    change: dict[str, Any], place: str
) -> None:
    answer = calling("send_mail", {**GOOD, **change})
    assert (answer.reason, answer.escalates) == ("schema-guard:arguments", False)
    assert answer.message is not None
    assert answer.message.startswith(f"{place} breaks")
    assert "evil" not in answer.message


def test_an_argument_that_is_missing_is_denied() -> None:
    assert calling("send_mail", {}).reason == "schema-guard:arguments"


def test_arguments_that_the_schema_does_not_name_pass_only_where_that_is_configured_or_the_schema_is_open() -> (
    None
):
    extra = {**GOOD, "bcc": []}
    assert calling("send_mail", extra, guard(closed=False)).permits
    opened = json.dumps([{"name": "send_mail", "schema": {**SEND, "additionalProperties": True}}])
    assert calling("send_mail", extra, guard(opened)).permits


@pytest.mark.parametrize(
    "name", ["Send_Mail", "SEND_MAIL", "send-mail", "send mail", "mcp__other__send_mail", "x.send_mail"]
)
def test_a_name_that_is_only_spelled_like_a_known_one_is_denied(name: str) -> None:
    assert calling(name, GOOD).reason == "schema-guard:look-alike"


@pytest.mark.parametrize("name", ["send_mаil", "ｓend_mail", "send\u200b_mail", "send_mail\u202e", "ping\n"])
def test_a_name_with_letters_that_no_tool_needs_is_denied(name: str) -> None:
    assert calling(name, {}).reason == "schema-guard:look-alike"


def test_a_tool_that_nobody_knows_is_denied_or_asked_about() -> None:
    assert calling("drop_table", {}).reason == "schema-guard:unknown-tool"
    assert not calling("drop_table", {}).escalates
    assert calling("drop_table", {}, guard(unknown="escalate")).escalates


def test_a_permitted_qualifier_may_stand_before_a_known_name() -> None:
    qualified = guard(qualifiers=["mcp__mail__"])
    assert calling("mcp__mail__send_mail", GOOD, qualified).permits
    assert calling("mcp__mail__send_mail", {}, qualified).reason == "schema-guard:arguments"
    assert calling("mcp__evil__send_mail", GOOD, qualified).reason == "schema-guard:look-alike"
    assert calling("MCP__mail__send_mail", GOOD, qualified).reason == "schema-guard:look-alike"


def test_the_declaration_that_the_agent_shows_counts_where_the_catalogue_is_silent() -> None:
    shown = [
        {
            "name": "count",
            "description": None,
            "schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        }
    ]
    assert calling("count", {"n": 1}, tools=shown).permits
    assert calling("count", {"n": "1"}, tools=shown).reason == "schema-guard:arguments"
    assert calling("count", {"n": 1}, guard(trust_shown=False), tools=shown).reason == "schema-guard:unknown-tool"
    assert calling("count", {"n": 1}, guard(None), tools=shown).permits
    assert calling("count", {"n": 1}, guard(None)).reason == "schema-guard:unknown-tool"


def test_the_catalogue_decides_where_the_agent_shows_another_schema() -> None:
    shown = [{"name": "send_mail", "description": None, "schema": {}}]
    assert calling("send_mail", {"anything": 1}, tools=shown).reason == "schema-guard:arguments"


def test_a_shown_schema_that_is_none_or_leads_elsewhere_permits_nothing() -> None:
    broken = [{"name": "count", "schema": {"type": "nonsense"}}]
    assert calling("count", {}, guard(None), tools=broken).reason == "schema-guard:no-schema"
    elsewhere = [{"name": "count", "schema": {"$ref": "https://schemas.example/count.json"}}]
    assert not calling("count", {}, guard(None), tools=elsewhere).permits
    misshapen = [{"schema": {}}]
    assert not calling("count", {}, guard(None), tools=misshapen).permits


def test_an_agent_whose_tools_look_alike_does_not_start() -> None:
    client = TestClient(guard())
    assert client.agent_startup(["send_mail", "ping"]).permits
    assert client.agent_startup(["send_mail", "Send-Mail"]).reason == "schema-guard:look-alike"
    assert client.agent_startup(["send_mail", "pіng"]).reason == "schema-guard:look-alike"


@pytest.mark.parametrize(
    "catalogue",
    [
        "{",
        '{"name": "x"}',
        '[{"name": "x"}]',
        '[{"name": "x", "schema": {"type": 7}}]',
        '[{"name": "x", "schema": {}}, {"name": "X", "schema": {}}]',
        '[{"name": "х", "schema": {}}]',
    ],
)
def test_a_catalogue_that_is_none_is_refused(catalogue: str) -> None:
    with pytest.raises(ValidationError):
        SchemaGuardConfiguration(catalogue=catalogue)


def test_the_catalogue_is_a_file_beside_the_configuration_and_read_again_with_it(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(CATALOGUE)
    (tmp_path / "guard.toml").write_text('version = "1"\ncatalogue = "tools.json"\n')
    reloading = SchemaGuard.from_config(tmp_path / "guard.toml")
    assert calling("ping", {}, reloading).permits  # type: ignore[arg-type]  # it answers as one
    before = reloading.policy_version
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "pong", "schema": {}}]))
    assert reloading.reload()
    assert reloading.policy_version != before
    assert calling("ping", {}, reloading).reason == "schema-guard:unknown-tool"  # type: ignore[arg-type]
    (tmp_path / "guard.toml").write_text('catalogue = "missing.json"\n')
    with pytest.raises(ConfigurationInvalid):
        SchemaGuard.from_config(tmp_path / "guard.toml")
