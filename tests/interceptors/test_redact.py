"""What is personal or secret does not pass, wherever it stands and however it is written; all else stays."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.configuration import ConfigurationInvalid
from hookbus_interceptors.redact import Redact, RedactConfiguration
from tests.interceptors.redact_figures import PAGE
from tests.worker.asking import Asker, context

KEY = "a key that is long enough"
CARD = "4111 1111 1111 1111"


def client(**settings: Any) -> TestClient:
    return TestClient(Redact(RedactConfiguration(**settings)))


PLAIN = client()


def redacted(text: str, asked: TestClient = PLAIN) -> str:
    answer = asked.output(text)
    assert answer.permits, answer
    found: str = answer.target["content"]
    return found


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("mail bob@corp.com.", "mail [EMAIL]."),
        ("mail jane [at] corp [dot] org or x%40corp.org", "mail [EMAIL] or [EMAIL]"),
        ("pay DE89 3704 0044 0532 0130 00 today", "pay [IBAN] today"),
        ("gb29nwbk60161331926819 paid", "[IBAN] paid"),
        (f"card {CARD} 12/25", "card [CARD] 12/25"),
        ("3782-822463-10005", "[CARD]"),
        ("DNI 12345678Z, NIE X2482300W", "DNI [ES_DNI], NIE [ES_NIE]"),
        ("12.345.678-Z", "[ES_DNI]"),
        ("390.533.447-05 and 39053344705", "[BR_CPF] and [BR_CPF]"),
        ("CNPJ 11.222.333/0001-81", "CNPJ [BR_CNPJ]"),
        ("ssn 536-90-4399", "ssn [US_SSN]"),
        ("the ssn is 536904399", "the ssn is [US_SSN]"),
        ("codice RCCMNL83S18D969H", "codice [IT_CF]"),
        ("hetu 131052-308T", "hetu [FI_HETU]"),
        ("call +34 612 345 678 now", "call [PHONE] now"),
        ("srv 8.8.4.4, ip=8.8.8.8", "srv [IP], ip=[IP]"),
        ("from 8.8.8.8 and 2a00:1450:4003:80a::200e", "from [IP] and [IP]"),
        ("password: hunter2, user: bob", "password: [SECRET], user: bob"),
        ("export DB_PASSWORD='correct horse'", "export DB_PASSWORD='[SECRET]'"),
        ("the password is hunter2", "the password is [SECRET]"),
        ("https://user:pa55@host.example/x", "https://user:[SECRET]@host.example/x"),
        ("key AKIAIOSFODNN7EXAMPLE", "key [SECRET]"),
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [SECRET]"),
        ("a eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK b", "a [SECRET] b"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nok", "[SECRET]\nok"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\ncut off", "[SECRET]"),
    ],
)
def test_what_is_found_is_replaced_and_nothing_else_is_changed(text: str, becomes: str) -> None:
    assert redacted(text) == becomes


@pytest.mark.parametrize(
    "text",
    [
        "order 20241130-4411, 5 of 12, at 2026-11-30T12:00:00Z and 12:30:45",
        "version 8.8.8.8, v8.8.4.4, 1.2.3 and std::vector<a::b>",
        "sha 3b18e512dba79e4c8300dd08aeb37f8e728b8dad 9e107d9d372bb6826bd81d3542a419d6",
        "4111 1111 1111 1112 and 0000000000000000",
        "DE89 3704 0044 0532 0130 01",
        "12345678A X2482300A 390.533.447-06",
        "icon@2x.png, @someone, a @ b",
        "192.168.0.1, 10.0.0.1, 127.0.0.1, ::1 and 999.1.1.1",
        "password: null, token_type: bearer, password: ${PASSWORD}",
        "the password is wrong",
        "-62.5428465, -130.9972168",
        "550e8400-e29b-41d4-a716-446655440000",
        "+1 and 00",
        "",
    ],
)
def test_what_only_looks_like_data_stays(text: str) -> None:
    answer = PLAIN.output(text)
    assert (answer.permits, answer.transform) == (True, None), answer


@pytest.mark.parametrize(
    "hidden",
    [
        "4111111111111111",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4111\u00a01111\u20091111\u30001111",
        "4111–1111—1111−1111",
        "4111\t1111\t1111\t1111",
        "4111\\u0031\\u00311111111111",
        "41\u200b11\u200d1111\u2060111111\ufeff11",
        "4111\u00ad1111\u00ad1111\u00ad1111",
        "٤١١١ ١١١١ ١١١١ ١١١١",
        "４１１１１１１１１１１１１１１１",
        "४१११ 1111 ११११ 1111",
    ],
)
def test_a_number_is_found_however_it_is_hidden(hidden: str) -> None:
    assert redacted(f"pay {hidden}, please") == "pay [CARD], please"


def test_a_piece_goes_whole_with_what_was_hidden_in_it_and_its_neighbours_stay() -> None:
    assert redacted("é\u200b b\u200bob@corp.com \u200bé") == "é\u200b [EMAIL] \u200bé"


def test_every_point_that_permits_a_transform_is_looked_at() -> None:
    mail = {"to": "bob@corp.com"}
    answers = [
        PLAIN.input("I am bob@corp.com"),
        PLAIN.pre_model_call([{"role": "user", "content": "I am bob@corp.com"}]),
        PLAIN.post_model_call("You are bob@corp.com"),
        PLAIN.post_model_call(None, [{"id": "1", "name": "send", "args": mail}]),
        PLAIN.pre_tool_call("send", mail),
        PLAIN.post_tool_call("read", value=[mail]),
        PLAIN.output({"text": "bob@corp.com"}),
    ]
    for answer in answers:
        assert answer.transform is not None
        assert "[EMAIL]" in json.dumps(answer.target)
        assert "bob@" not in json.dumps(answer.target)
    assert PLAIN.agent_startup(["bob@corp.com"]).permits


def test_the_transform_is_the_smallest_that_holds_every_change() -> None:
    def path(args: dict[str, Any]) -> str:
        transform = PLAIN.pre_tool_call("x", args).transform
        assert transform is not None
        return transform.path

    assert path({"a": {"to": ["x", "bob@corp.com"]}, "b": 1}) == "$target.a.to[1]"
    assert path({"a": {"to": ["bob@corp.com", "bob@corp.com"]}}) == "$target.a.to"
    assert path({"a": "bob@corp.com", "b": "bob@corp.com"}) == "$target"
    assert path({"a": {"with space": "bob@corp.com"}}) == "$target.a"
    assert path({"a": {"bob@corp.com": 1}}) == "$target.a"


def test_names_and_numbers_hold_data_too_and_no_member_is_lost() -> None:
    answer = PLAIN.pre_tool_call(
        "x", {"a@corp.com": 1, "b@corp.com": 2, "n": 4111111111111111, "m": 41.5, "t": True}
    )
    assert answer.target == {"[EMAIL]": 1, "[EMAIL] 2": 2, "n": "[CARD]", "m": 41.5, "t": True}


def test_what_is_called_a_secret_is_one() -> None:
    args = {
        "userPassword": "any thing",
        "headers": {"Authorization": "x y"},
        "api-key": 12345678,
        "password": None,
    }
    assert PLAIN.pre_tool_call("x", args).target == {
        "userPassword": "[SECRET]",
        "headers": {"Authorization": "[SECRET]"},
        "api-key": "[SECRET]",
        "password": None,
    }


def test_the_name_of_an_argument_names_its_number() -> None:
    assert PLAIN.pre_tool_call("x", {"customerSsn": "536904399", "other": "536904399"}).target == {
        "customerSsn": "[US_SSN]",
        "other": "536904399",
    }


def test_json_in_a_string_stays_json_and_its_escapes_hide_nothing() -> None:
    assert redacted('{"a": "bob\\u0040corp.com", "n": 4111111111111111}') == '{"a":"[EMAIL]","n":"[CARD]"}'
    assert redacted('{ "password" :  "hunter2" }') == '{ "password" :  "[SECRET]" }'
    assert redacted('[["[{\\"a\\": \\"bob@corp.com\\"}]"]]') == '[["[{\\"a\\": \\"[EMAIL]\\"}]"]]'


def test_what_holds_messages_together_stays_though_it_looks_like_data_and_hides_nothing_else() -> None:
    call = {
        "id": "39053344705",
        "type": "function",
        "function": {"name": "f", "arguments": '{"to": "bob@corp.com"}'},
    }
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": "39053344705",
            "content": '[{"type": "bob@corp.com", "id": "39053344705"}]',
        },
    ]
    told = json.dumps(PLAIN.pre_model_call(messages).target)
    assert told.count("39053344705") == 2
    assert "bob@" not in told


def test_a_refusal_names_the_kind_and_the_place_and_never_the_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asked = client(actions={"IBAN": "refuse", "ES_*": "refuse"})
    answer = asked.pre_tool_call("pay", {"to": ["x", {"iban": "DE89370400440532013000"}]})
    assert (answer.reason, answer.message) == (
        "redact:iban",
        "to[1].iban has IBAN in it, which may not pass here.",
    )
    assert not answer.escalates
    assert asked.output("12345678Z").reason == "redact:es-dni"
    secret_name = asked.pre_tool_call("pay", {"DE89370400440532013000": 1})
    assert secret_name.reason == "redact:iban"
    below = client(actions={"CARD": "refuse"}).pre_tool_call("pay", {"DE89370400440532013000": CARD})
    assert below.message == "… has CARD in it, which may not pass here."
    for told in (str(answer.verdict), str(secret_name.verdict), caplog.text):
        assert "8937" not in told


def test_a_replacement_is_told_by_kinds_and_counts_alone() -> None:
    answer = PLAIN.output("bob@corp.com, ann@corp.com, DE89370400440532013000")
    assert (answer.reason, answer.message) == ("redact:replaced", "Replaced: 2 EMAIL, 1 IBAN.")


def test_a_hash_is_the_same_for_every_spelling_and_another_under_another_key() -> None:
    def hashed(text: str, key: str = KEY) -> str:
        return redacted(text, client(otherwise="hash", key=key))

    one = hashed("DE89370400440532013000")
    assert one.startswith("[IBAN:")
    assert hashed("de89 3704 0044 0532 0130 00") == one
    assert hashed("DE89370400440532013000", KEY + "!") != one
    assert hashed("Bob@Corp.com") == hashed("bob@corp.com") != hashed("bo.b@corp.com")
    assert hashed("8.81.8.8") != hashed("88.1.8.8")


def test_an_action_is_for_a_point_before_it_is_for_all() -> None:
    asked = client(actions={"SECRET": "refuse", "*": "replace"}, at={"pre_tool_call": {"EMAIL": "keep"}})
    assert asked.pre_tool_call("send", {"to": "bob@corp.com"}).transform is None
    assert asked.pre_tool_call("send", {"to": "bob@corp.com", "card": CARD}).target["card"] == "[CARD]"
    assert redacted("bob@corp.com", asked) == "[EMAIL]"
    assert asked.pre_tool_call("send", {"password": "hunter2"}).reason == "redact:secret"


def test_what_is_kept_hides_nothing_of_another_kind() -> None:
    asked = client(actions={"CARD": "keep"})
    assert redacted("https://u:4111111111111111@host.example", asked) == "https://u:[SECRET]@host.example"
    assert (
        redacted("card 4111111111111111", client(actions={"SECRET": "keep", "CARD": "replace"})) == "card [CARD]"
    )
    password = {"password": "bob@corp.com"}
    assert client(actions={"SECRET": "keep"}).pre_tool_call("x", password).target == {"password": "[EMAIL]"}


def test_countries_and_regions_are_those_of_the_configuration() -> None:
    spain = client(countries={"ES"}, phone_regions={"ES"})
    assert redacted("12345678Z 390.533.447-05 tel 612 345 678", spain) == "[ES_DNI] 390.533.447-05 tel [PHONE]"
    assert redacted("tel 612 345 678") == "tel 612 345 678"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("(415) 555-2671", "[PHONE]"),
        ("my phone: 4155552671", "my phone: [PHONE]"),
        ("no order 4155552671", "no order 4155552671"),
        ("Ask by phone. Order 4155552671", "Ask by phone. Order 4155552671"),
        ("at 40.7128001, on 01.02.1988 20:40, 2026-11-30", "at 40.7128001, on 01.02.1988 20:40, 2026-11-30"),
        ("Mobile/15E148 6054156512", "Mobile/15E148 6054156512"),
    ],
)
def test_a_number_without_its_country_is_a_telephone_when_it_is_written_or_called_so(
    text: str, becomes: str
) -> None:
    assert redacted(text, client(phone_regions={"US", "FR", "IT"})) == becomes


def test_private_addresses_are_found_where_that_is_configured() -> None:
    assert redacted("192.168.0.1 127.0.0.1", client(private_addresses=True)) == "[IP] 127.0.0.1"


@pytest.mark.parametrize(
    "settings",
    [
        {"otherwise": "hash"},
        {"at": {"output": {"IBAN": "hash"}}},
        {"key": "short"},
        {"countries": ["XX"]},
        {"actions": {"IBANS": "refuse"}},
        {"at": {"agent_startup": {"IBAN": "keep"}}},
        {"at": {"output": {"NOTHING": "keep"}}},
        {"people": {"model": "m", "kinds": ["EMAIL"]}},
    ],
)
def test_a_configuration_that_would_not_do_what_it_says_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RedactConfiguration(**settings)


def test_the_key_is_a_file_beside_the_configuration_and_told_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "redact.key").write_text(KEY + "\n")
    (tmp_path / "redact.toml").write_text('version = "7"\notherwise = "hash"\nkey = "redact.key"\n')
    reloading = Redact.from_config(tmp_path / "redact.toml")
    told = redacted("bob@corp.com", TestClient(reloading))
    assert told == redacted("bob@corp.com", client(otherwise="hash", key=KEY))
    assert reloading.policy_version.startswith("7+")
    assert KEY not in repr(reloading.current.configuration)
    (tmp_path / "redact.key").write_text("another key, long enough too")
    reloading.reload()
    assert redacted("bob@corp.com", TestClient(reloading)) != told
    (tmp_path / "redact.toml").write_text('otherwise = "hash"\nkey = "missing"\n')
    with pytest.raises(ConfigurationInvalid):
        Redact.from_config(tmp_path / "redact.toml")


def test_the_configuration_of_the_page_does_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "redact.toml").write_text(PAGE.read_text().partition("```toml\n")[2].partition("```")[0])
    (tmp_path / "redact.key").write_text(KEY)
    asked = TestClient(Redact.from_config(tmp_path / "redact.toml"))
    assert asked.output("password: hunter2").reason == "redact:secret"
    assert redacted("39053344705", asked).startswith("[BR_CPF:")
    assert asked.pre_tool_call("send", {"to": "bob@corp.com"}).transform is None
    assert redacted("bob@corp.com, tel 612 345 678", asked) == "[EMAIL], tel [PHONE]"


def test_what_is_read_in_two_ways_hides_nothing() -> None:
    twice = '{"a": "bob\\u0040corp.com", "a": "x"}'
    assert redacted(twice) == '{"a": "[EMAIL]", "a": "x"}'
    assert redacted('{"a": 4111111111111111}\n{"a": "\\u0034111111111111111"}') == '{"a": [CARD]}\n{"a": "[CARD]"}'
    assert redacted("[" * 100_000) == "[" * 100_000


@pytest.mark.anyio
async def test_a_worker_answers_with_the_transform_and_the_version_of_its_policy(
    shared_server: EmbeddedServer,
) -> None:
    interceptor = Redact(RedactConfiguration(version="3"))
    async with Asker(shared_server.url) as asker, Worker(asker.bus, interceptor, name="policy"):
        answer = await asker.ask(context({"to": ["bob@corp.com", "x"]}))
        assert answer.verdict["transform"] == {"path": "$target.to[0]", "value": "[EMAIL]"}
        assert answer.headers["Hb-Policy"] == interceptor.policy_version
        assert answer.headers["Hb-Policy"].startswith("3+")
