"""Laws that hold for any bytes, any value, any context: decoders, identities, tokens, transforms."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import agent_hooks
import pytest
from agent_hooks import Decision, Transform, Verdict
from agent_hooks import _core as core
from agent_hooks._marshal import dumps
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hookbus import HeadersMalformed, OutOfDomain, Undecodable, codec, envelope, subjects
from hookbus.context import prepare
from hookbus_client import NotAVerdict
from hookbus_client.contexts import check_envelope
from hookbus_client.gate import verdict_of_bytes, verdict_of_object
from hookbus_client.identity import identity
from hookbus_client.transforms import TransformFailed, transformed, write_back
from tests.contract.documents import exact
from tests.contract.strategies import ANY_BYTES, HEADER_BYTES, I_JSON, RESPONSES, TEXT, VALUES, contexts

cases = settings(max_examples=150, deadline=None, derandomize=True)


# ---- decoders ------------------------------------------------------------------------------------


@cases
@given(ANY_BYTES)
def test_the_strict_parse_returns_what_json_reads_or_raises_one_known_error(body: bytes) -> None:
    try:
        document = codec.parse_strictly(body)
    except Undecodable:
        return
    assert exact(document) == exact(json.loads(body))
    assert exact(codec.parse_strictly(codec.encode(document, codec.survey(document)))) == exact(document)


@cases
@given(VALUES)
def test_the_strict_parse_accepts_whatever_the_encoder_writes(value: Any) -> None:
    assert exact(codec.parse_strictly(codec.encode(value, codec.survey(value)))) == exact(value)


@cases
@given(ANY_BYTES)
def test_a_worker_reads_a_context_from_any_bytes_or_raises_one_known_error(body: bytes) -> None:
    try:
        context = codec.decode_context(body)
    except Undecodable:
        return
    assert exact(context) == exact(json.loads(body))


@cases
@given(ANY_BYTES)
def test_the_gate_accepts_any_bytes_as_a_verdict_or_raises_one_known_error(body: bytes) -> None:
    try:
        verdict = verdict_of_bytes(body)
    except NotAVerdict:
        return
    document = json.loads(body)
    assert verdict.decision.value == document.get("verdict", document)["decision"]


@cases
@given(RESPONSES)
def test_the_gate_accepts_exactly_what_the_standard_s_own_gate_accepts(response: Any) -> None:
    body = json.dumps(response)
    try:
        accepted = agent_hooks.InterceptorResponse.parse(body).verdict
    except core.AgentHooksCoreError as error:
        assert_refused(error.code, verdict_of_bytes, body.encode())
        return
    verdict = verdict_of_bytes(body.encode())
    assert _without_value(verdict) == _without_value(accepted)
    if verdict.transform is not None:
        wire = response.get("verdict", response)
        assert exact(verdict.transform.value) == exact(wire["transform"].get("value"))


@cases
@given(RESPONSES)
def test_a_verdict_of_this_process_passes_the_same_gate_as_one_from_the_wire(response: Any) -> None:
    assert _outcome(verdict_of_object, response) == _outcome(verdict_of_bytes, json.dumps(response).encode())


@cases
@given(HEADER_BYTES)
def test_headers_are_read_from_any_bytes_or_refused_with_one_known_error(raw: bytes) -> None:
    try:
        headers = envelope.parse(raw)
    except HeadersMalformed:
        return
    # What was read can be written, and reads the same: nothing hides in a value.
    assert envelope.parse(envelope.encode(headers.values)).values == headers.values


NAMES = st.from_regex(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,12}", fullmatch=True)


@cases
@given(st.dictionaries(NAMES, TEXT.map(lambda text: text.strip(" \t")), max_size=4))
def test_headers_that_are_written_are_read_back_and_a_line_break_is_never_written(values: dict[str, str]) -> None:
    if any("\r" in value or "\n" in value for value in values.values()):
        with pytest.raises(ValueError, match="line break"):
            envelope.encode(values)
    else:
        assert envelope.parse(envelope.encode(values)) == (None, values)


# ---- contexts out --------------------------------------------------------------------------------


@cases
@given(contexts(VALUES))
def test_what_a_worker_decodes_is_exactly_what_the_agent_encoded(context: dict[str, Any]) -> None:
    check_envelope(context)
    assert exact(codec.decode_context(codec.encode(context, codec.survey(context)))) == exact(context)


@cases
@given(contexts(VALUES), st.sampled_from(["messages", "another"]))
def test_a_large_context_is_decoded_like_a_small_one_and_shares_what_stands_twice(
    context: dict[str, Any], name: str
) -> None:
    context |= {"padding": "x" * 20_000, name: context["target"]}
    decoded = codec.decode_context(codec.encode(context, codec.survey(context)))
    assert exact(decoded) == exact(context)
    assert decoded[name] is decoded["target"]


@cases
@given(ANY_BYTES, st.sampled_from([b" ", b"\n"]))
def test_a_large_body_is_a_context_exactly_when_it_is_one_without_its_blanks(body: bytes, blank: bytes) -> None:
    large = body + blank * 20_000
    try:
        context = codec.decode_context(body)
    except Undecodable:
        with pytest.raises(Undecodable):
            codec.decode_context(large)
        return
    assert exact(codec.decode_context(large)) == exact(context)


NOT_JSON = st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), "\ud800", "a\udfff", {1: 1}, {"\udc00": 1}, b"a"]
)


@cases
@given(contexts(VALUES), NOT_JSON, st.sampled_from(["target", "agent", "extensions"]), st.booleans())
def test_a_context_that_json_cannot_say_is_refused_wherever_that_stands(
    context: dict[str, Any], thing: Any, place: str, deep: bool
) -> None:
    context[place] = {"id": "a", "framework": "hookbus", "x": [thing] if deep else thing}
    with pytest.raises(OutOfDomain):
        codec.encode(context, codec.survey(context))


# ---- subjects ------------------------------------------------------------------------------------

IDENTIFIERS = TEXT | st.from_regex(r"(x-)?[a-zA-Z0-9_-]{0,66}\n?", fullmatch=True)


@cases
@given(IDENTIFIERS, IDENTIFIERS)
def test_a_token_is_always_a_token_and_no_two_identifiers_share_one(first: str, second: str) -> None:
    tokens = [subjects.token(first), subjects.token(second), subjects.token(subjects.token(first))]
    assert all(subjects.is_token(token) for token in tokens)
    assert (tokens[0] == tokens[1]) == (first == second)
    # A hash that is given as an identifier is hashed in turn, so nobody can pose as what it is the hash of.
    assert (tokens[2] == tokens[0]) == (tokens[0] == first)


# ---- identity ------------------------------------------------------------------------------------


@cases
@given(contexts(I_JSON))
def test_the_identity_is_the_standard_s_own_for_every_context_in_its_domain(context: dict[str, Any]) -> None:
    assert identity("jcs-sha256", prepare(context)) == agent_hooks.context_identity(context)


@cases
@given(contexts(VALUES, names=st.sampled_from(["x", "note"])))
def test_a_context_has_an_identity_exactly_if_the_standard_gives_it_one(context: dict[str, Any]) -> None:
    try:
        expected = agent_hooks.context_identity(context)
    except core.AgentHooksCoreError:
        with pytest.raises(OutOfDomain):
            identity("jcs-sha256", prepare(context))
        return
    assert identity("jcs-sha256", prepare(context)) == expected


def test_a_member_outside_the_projection_takes_no_identity_away_whatever_its_name() -> None:
    """The standard's own core refuses both contexts because of how JSON writes ``é``, which §10.2 does not say."""
    context: dict[str, Any] = {
        "spec": "agent-hooks/0.1",
        "interception_point": "agent_startup",
        "timestamp": "2026-11-30T12:00:00Z",
        "sequence": 0,
        "agent": {"id": "travel", "framework": "hookbus"},
        "session": {"id": "s-1"},
        "target": None,
        "agent_init": {"tools_registered": []},
    }
    expected = agent_hooks.context_identity(context)
    for added in ({"é": 1}, {"agent_init": {"tools_registered": [], "é": 2**53}}):
        assert identity("jcs-sha256", prepare(context | added)) == expected
        with pytest.raises(core.AgentHooksCoreError):
            agent_hooks.context_identity(context | added)


# ---- transforms ----------------------------------------------------------------------------------

TRANSFORMABLE = ("input", "pre_model_call", "post_model_call", "pre_tool_call", "post_tool_call", "output")
KEYS = st.sampled_from(["a", "b", "0", "a-b", "_", "", "é", "a.b", "a b"])
TARGETS = st.recursive(
    st.none() | st.booleans() | TEXT | st.integers(-9, 9),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=10,
)
SEGMENTS = st.one_of(
    KEYS.map(lambda key: f".{key}"),
    KEYS.map(lambda key: f'["{key}"]'),
    st.sampled_from(["[0]", "[1]", "[00]", "[-1]", "[9]", "[*]", "[1e0]", "..", ".", "[", "[']", f"[{10**20}]"]),
    TEXT,
)
PATHS = st.tuples(
    st.sampled_from(["$target", "$policy_target", "$targetx", "$", "", " $target", "$agent"]),
    st.lists(SEGMENTS, max_size=3).map("".join),
).map("".join)


@st.composite
def targets_with_paths(draw: st.DrawFn) -> tuple[Any, str]:
    """A target and a path that resolves in it, or was bent."""
    target = value = draw(TARGETS)
    path = draw(st.sampled_from(["$target", "$policy_target"]))
    while isinstance(value, dict | list) and value and draw(st.booleans() | st.just(True)):
        if isinstance(value, list):
            index = draw(st.integers(0, len(value) - 1))
            path, value = f"{path}[{index}]", value[index]
        else:
            key = draw(st.sampled_from(sorted(value)))
            path, value = draw(st.sampled_from([f"{path}.{key}", f'{path}["{key}"]'])), value[key]
    if draw(st.booleans()):
        path += draw(SEGMENTS)
    return target, path


@cases
@given(
    st.sampled_from(TRANSFORMABLE).flatmap(lambda point: contexts(st.just("text"), (point,))),
    targets_with_paths() | st.tuples(TARGETS, PATHS),
    TARGETS,
)
def test_a_transform_does_what_the_standard_s_own_does(
    context: dict[str, Any], place: tuple[Any, str], value: Any
) -> None:
    target, path = place
    assume('[""]' not in path)
    context["target"] = target
    if context["interception_point"] == "pre_model_call":
        context["messages"] = target
    before = copy.deepcopy(context)
    try:
        expected = json.loads(core.apply_transform_ctx(dumps(context), path, dumps(value)))
    except core.AgentHooksCoreError as error:
        assert_refused(error.code, _transformed, context, path, value)
        assert context == before
    else:
        write_back(context, _transformed(context, path, value))
        assert exact(context) == exact(expected)


def test_an_empty_name_in_a_path_is_outside_the_grammar() -> None:
    """Names have one character or more (§5.2, ``path-grammar.abnf``), but the standard's own core lets none by."""
    context: dict[str, Any] = {"interception_point": "input", "target": {"": "old"}}
    assert_refused("host_error:transform_invalid", transformed, context, Transform('$target[""]', "new"))
    assert json.loads(core.apply_transform(dumps(context["target"]), '$target[""]', '"new"')) == {"": "new"}


def assert_refused(reason: str, call: Callable[..., object], *arguments: object) -> None:
    """Assert that the call raises a refusal with this reserved reason."""
    with pytest.raises((NotAVerdict, TransformFailed)) as refused:
        call(*arguments)
    assert isinstance(refused.value, NotAVerdict | TransformFailed)
    assert refused.value.reason.value == reason


def _transformed(context: dict[str, Any], path: str, value: Any) -> Any:
    """Return the target as a worker's verdict leaves it: through the gate, then applied."""
    transform = {"path": path, "value": value}
    verdict = verdict_of_bytes(json.dumps({"decision": "transform", "transform": transform}).encode())
    assert verdict.transform is not None
    before = copy.deepcopy(context)
    replaced = transformed(context, verdict.transform)
    assert context == before
    return replaced


def _without_value(verdict: Verdict) -> dict[str, Any]:
    wire = verdict.to_wire()
    if verdict.decision is Decision.TRANSFORM:
        wire["transform"] = {"path": wire["transform"]["path"]}
    return wire


def _outcome(gate: Any, given: Any) -> str:
    try:
        return exact(gate(given).to_wire())
    except NotAVerdict as refused:
        return refused.reason.value
