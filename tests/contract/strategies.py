"""What the property tests draw from: JSON values of every kind, contexts, and bytes that are almost JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

#: Every class of character that some writer of JSON escapes, sorts or counts differently.
CHARACTERS = 'aZ09_-."\\/\b\f\n\r\t\x00\x1f\x7f\x80é\u2028\ud7ff\ue000\ufffd\uffff\U00010000\U0001f680\U0010ffff'
TEXT = st.text(st.sampled_from(CHARACTERS), max_size=5) | st.text(max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1e16, 1e21, 1e22, 1e23, 5e-324, 1.7976931348623157e308, 0.1, 123456789012345680000.0, 1e-7]
)
EDGES = [2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 10**40]
INTEGERS = st.integers() | st.sampled_from([sign * edge for edge in EDGES for sign in (1, -1)])
SAFE_INTEGERS = st.integers(1 - 2**53, 2**53 - 1)


def json_values(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any JSON value with these numbers."""
    leaves = st.none() | st.booleans() | TEXT | numbers
    return st.recursive(
        leaves,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXT, below, max_size=3),
        max_leaves=6,
    )


#: Any JSON value that the wire carries.
VALUES = json_values(INTEGERS | FINITE)
#: Any JSON value within I-JSON (RFC 7493), the domain of ``jcs-sha256``. Of the fractions those whose value is
#: an integer beyond 2^53 are left out: the standard takes such a number for an integer that is not safe.
I_JSON = json_values(SAFE_INTEGERS | FINITE.filter(lambda number: abs(number) < 2**53))

POINT_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "agent_startup": {"agent_init": ("tools_registered",)},
    "input": {"input": ("content", "role")},
    "pre_model_call": {"model": ("id",)},
    "post_model_call": {"model": ("id",), "response": ("content", "tool_calls", "finish_reason")},
    "pre_tool_call": {"tool_call": ("id", "name", "args")},
    "post_tool_call": {"tool_call": ("id", "name", "args"), "tool_result": ("value", "is_error")},
    "output": {"output": ("content",)},
    "agent_shutdown": {"summary": ("reason",)},
}


@st.composite
def contexts(
    draw: st.DrawFn,
    values: st.SearchStrategy[Any],
    points: tuple[str, ...] = (),
    names: st.SearchStrategy[str] = TEXT,
) -> dict[str, Any]:
    """A context with a valid envelope, any values in it, and members with *names* that no specification knows."""
    point = draw(st.sampled_from(points or tuple(POINT_FIELDS)))
    context: dict[str, Any] = {
        "spec": "agent-hooks/0.1",
        "interception_point": point,
        "timestamp": "2026-11-30T12:00:00Z",
        "sequence": 3,
        "agent": {"id": draw(TEXT) + "a", "framework": "hookbus"},
        "session": {"id": draw(TEXT) + "s"},
        "target": draw(values),
        "extensions": {draw(names): draw(values)},
    }
    for field, members in POINT_FIELDS[point].items():
        first, *others = members
        context[field] = {draw(names): draw(values), first: draw(values), **dict.fromkeys(others, "text")}
    if point == "pre_model_call":
        context["messages"] = context["target"]
    return context


#: What may stand where something else belongs.
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 2**64, 0.5, "", "x", "host_error:x", [], {}, [1], ["x"], {"a": 1}, [{}]]
)
WORD = st.sampled_from(["", "x", "é", "\U0001f680", "a b", "host_error", "$target"])
_NOTES = st.fixed_dictionaries(
    {},
    optional={
        "reason": WORD,
        "message": WORD,
        "warnings": st.lists(st.fixed_dictionaries({}, optional={"reason": WORD, "message": WORD}), max_size=2),
        "evidence": st.fixed_dictionaries(
            {}, optional={"artefact": WORD, "verification_pointers": st.just({"a": "b"})}
        ),
        "result_labels": st.lists(WORD, max_size=2),
    },
)
_MEMBERS = ["decision", "reason", "message", "warnings", "approval", "transform", "evidence", "result_labels", "x"]


@st.composite
def verdicts(draw: st.DrawFn) -> dict[str, Any]:
    """A verdict as it goes over the wire; one in three is bent at one member."""
    decision = draw(st.sampled_from(["allow", "deny", "transform"]))
    verdict: dict[str, Any] = {"decision": decision} | draw(_NOTES)
    if decision == "transform":
        path = draw(st.sampled_from(["$target", "$target.a", '$policy_target["a"][0]', "$target..a", "$agent"]))
        verdict["transform"] = {"path": path, "value": draw(VALUES)}
    elif decision == "deny" and draw(st.booleans()):
        verdict["approval"] = {}
    if draw(st.integers(0, 2)) == 2:
        holder = verdict if decision != "transform" or draw(st.booleans()) else verdict["transform"]
        holder[draw(st.sampled_from([*_MEMBERS, "path", "verdict"]))] = draw(ODD)
    return verdict


RESPONSES = verdicts() | st.fixed_dictionaries(
    {"verdict": verdicts()}, optional={"extensions": ODD | VALUES, "x": ODD}
)

_BENT = [
    *(b"NaN", b"-Infinity", b"1e999", b"9" * 4301, b"-", b"0", b"1", b"null"),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b"\xed\xa0\x80", b"\xff", b"\x00", b"\xef\xbb\xbf"),
    *(b"{}", b'{"a":1,"a":2}', b"[" * 130, b"]" * 130, b'{"a":' * 130),
    *(b",", b":", b'"', b"\\", b" ", b"\n"),
]


@st.composite
def bent_json(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> bytes:
    """The JSON of a value with a few pieces put in, taken out or repeated somewhere."""
    raw = json.dumps(draw(values), ensure_ascii=draw(st.booleans())).encode()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(raw)))
        end = draw(st.integers(start, min(len(raw), start + 6)))
        piece = draw(st.sampled_from(_BENT) | st.binary(max_size=3) | st.just(raw[start:end] * 2))
        raw = raw[:start] + piece + raw[end:]
    return raw


ANY_BYTES = st.binary(max_size=60) | bent_json(VALUES) | bent_json(RESPONSES)

_LINES = st.one_of(
    st.sampled_from(
        [
            b"NATS/1.0",
            b"NATS/1.0 503",
            b"Hb-Id: 1",
            b"Hb-Id:",
            b"Hb-Policy: \xff",
            b": x",
            b"",
            b" folded",
            b"a\nb: c",
        ]
    ),
    st.binary(max_size=12),
)
HEADER_BYTES = st.binary(max_size=40) | st.lists(_LINES, max_size=5).map(
    lambda lines: b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
)
