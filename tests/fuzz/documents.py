"""Documents as they are before they are bent: verdicts, contexts, values."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import nkeys

from hookbus.signing import Signer
from tests.client.cases import POINTS
from tests.fuzz.target import few, sometimes

WORDS = ("a", "b", "policy:x", "ä", "🙂", "", "x" * 300, "allow", "deny", "\u2028")
AGENT = "bot"


def signer(number: int) -> Signer:
    """A private key that is the same in every run."""
    return Signer(nkeys.encode_seed(bytes([number]) * 32, nkeys.PREFIX_BYTE_USER))


def value(random: Random, levels: int = 3) -> Any:
    """Any JSON value within I-JSON."""
    kind = random.randrange(8 if levels else 6)
    if kind == 6:
        return [value(random, levels - 1) for _ in range(random.randrange(3))]
    if kind == 7:
        return {random.choice(("x", "y", "a-b", "é", "0")): value(random, levels - 1) for _ in range(2)}
    return (None, random.choice((True, False)), random.choice(WORDS), random.randrange(-9, 9), 2**53 - 1, 0.5)[
        kind
    ]


def path(random: Random, target: Any) -> str:
    """A path that leads somewhere in *target*, near the grammar of §5.2, and half of the time bent."""
    steps: list[str] = [random.choice(("$target", "$target", "$policy_target"))]
    here = target
    while isinstance(here, dict | list) and here and not sometimes(random, 4):
        if isinstance(here, list):
            index = random.randrange(len(here))
            steps.append(f"[{index}]")
            here = here[index]
        else:
            name = random.choice(sorted(here))
            steps.append(random.choice((f".{name}", f'["{name}"]')))
            here = here[name]
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        bend = random.randrange(4)
        at = random.randrange(len(steps))
        if bend == 0:
            steps[at] = random.choice(_STEPS)
        elif bend == 1:
            steps.insert(at + 1, random.choice(_STEPS))
        elif bend == 2:
            steps[at] = steps[at].swapcase()
        else:
            cut = random.randrange(len(steps[at]) + 1)
            steps[at] = steps[at][:cut] + random.choice(("", *'.[]"$ 0x')) + steps[at][cut + 1 :]
    return "".join(steps)


_STEPS = (
    *(
        "",
        ".x",
        '["x"]',
        "[0]",
        ".content",
        "..x",
        ".",
        "[",
        "]",
        "[]",
        '[""]',
        "['x']",
        "[x]",
        "[-1]",
        "[00]",
        "[9]",
    ),
    *(
        "[1.0]",
        "[1e0]",
        "[*]",
        ".*",
        "[:]",
        "[0:1]",
        '["é"]',
        ".é",
        '["x y"]',
        " ",
        "\n",
        ".x ",
        "[ 0 ]",
        "$",
        "[٣]",
    ),
    *(
        f"[{9**30}]",
        "[" + "1" * 5000 + "]",
        "[" + "0" * 5000 + "]",
        "." + "x" * 5000,
        ".x" * 1500,
        '["x".y]',
        '["x\\"]',
        '["\\u0078"]',
    ),
    *(
        "[?(@.x)]",
        "\x00",
        ".__proto__",
        "$target",
        "$Target",
        "$agent",
        "target",
        "$policy_targe",
        "[0]]",
        "[[0]]",
    ),
)


def verdict(random: Random) -> dict[str, Any]:
    """A verdict as §5 has it, or one that is wrong in its meaning only."""
    made: dict[str, Any] = {"decision": random.choice(("allow", "allow", "deny", "transform"))}
    if made["decision"] == "transform":
        made["transform"] = {
            "path": random.choice(("$target", "$target.x", '$target["x"]', "$target[0]")),
            "value": 1,
        }
    if made["decision"] == "deny" and sometimes(random, 2):
        made["approval"] = {}
    extras = (
        *(("reason", "r"), ("message", random.choice(WORDS)), ("warnings", [{"reason": "w", "message": "m"}])),
        *(("result_labels", ["l"]), ("evidence", {"artefact": "urn:x"}), ("reason", None), ("warnings", None)),
    )
    wrong = (("approval", {}), ("approval", None), ("transform", None), ("unknown", 1), ("reason", "host_error:x"))
    made |= few(random, extras)
    if sometimes(random, 6):
        made |= few(random, wrong, 1)
    return made


def answer(random: Random) -> bytes:
    """A verdict's bytes, bare or in its envelope."""
    document = verdict(random)
    if sometimes(random, 5):
        document = {"verdict": document, "extensions": {"x": 1}}
    return json.dumps(document, ensure_ascii=sometimes(random, 2)).encode()


def context(random: Random, point: str = "", agent: str = AGENT) -> dict[str, Any]:
    """A context with a valid envelope, any value in it, at *point* or at any."""
    point = point or random.choice(POINTS)
    held = value(random)
    call = {"id": "c", "name": "t", "args": held}
    members, target = _fields(point, held, call)
    made: dict[str, Any] = {
        "spec": "agent-hooks/0.1",
        "interception_point": point,
        "timestamp": "2026-11-30T12:00:00Z",
        "sequence": random.choice((0, 1, 2**53)),
        "agent": {"id": agent, "framework": "fuzz"},
        "session": {"id": "s"},
        "target": target,
        **members,
    }
    if sometimes(random, 4):
        made["tenant"] = random.choice(({"id": "default"}, {"id": "other"}, None, {}, "default", {"id": 5}))
    if sometimes(random, 6):
        state = random.choice(("a=b", "é", "a\r\nb"))
        made["trace"] = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "tracestate": state}
    return made


def _fields(point: str, held: Any, call: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the fields of *point*'s own (§4.2) around *held*, and its target (§4.3)."""
    match point:
        case "agent_startup":
            return {"agent_init": {"tools_registered": held}}, held
        case "input":
            made: Any = {"content": held, "role": "user"}
            return {"input": made}, made
        case "pre_model_call":
            made = [{"role": "user", "content": held}]
            return {"model": {"id": "m"}, "messages": made}, made
        case "post_model_call":
            made = {"content": held, "tool_calls": [], "finish_reason": "stop"}
            return {"model": {"id": "m"}, "response": made}, made
        case "pre_tool_call":
            return {"tool_call": call}, held
        case "post_tool_call":
            return {"tool_call": call, "tool_result": {"value": held, "is_error": False}}, held
        case "output":
            return {"output": {"content": held}}, {"content": held}
    return {"summary": {"reason": held}}, held
