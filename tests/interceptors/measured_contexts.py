"""Contexts of a given size with nothing in them that a fleet minds: every check runs to its end."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from agent_hooks import AgentContextBuilder

from hookbus.codec import Json
from tests.worker.asking import AGENT

Context = dict[str, Json]

SIZES: Final = {"1 KB": 1024, "64 KB": 64 * 1024}
_TEXT: Final = (
    "the minutes of this morning are ready and the window was open while we talked about seats prices trains "
    "dinner colour paper weather gardens music letters bread rivers stones and a quiet place near the station "
    "where nobody waits for long because everything there is found in its own order again"
)
_WORDS: Final = _TEXT.split(" ")
_TOOL: Final = {
    "name": "send_mail",
    "schema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
        "required": ["to"],
    },
}
_PART_BYTES: Final = 600


def context_of(point: str, size_bytes: int, number: int) -> Context:
    """Return context *number* at *point*, about *size_bytes* long: each number has a session and texts of its own.

    The bulk is a conversation before the model and before a tool, and the tool's result after it.
    """
    make = _MAKERS[point]
    empty, two = (len(json.dumps(make(parts, number))) for parts in ([], ["x" * 8] * 2))
    # What one part takes beside its text, and how often the text stands in the context (§4.3).
    copies = 1 if point == "pre_tool_call" else 2
    around = (two - empty) // 2 - 8 * copies
    left, parts = size_bytes - empty, list[str]()
    words = random.Random(f"{point} {number}")
    while left > around + 20 * copies:
        parts.append(_prose(words, min(_PART_BYTES, (left - around) // copies)))
        left -= around + len(parts[-1]) * copies
    return make(parts, number)


def _prose(words: random.Random, length: int) -> str:
    return " ".join(words.choices(_WORDS, k=length // 4))[:length]


def _builder(number: int) -> AgentContextBuilder:
    return AgentContextBuilder(agent_id=AGENT, framework="figures", session_id=f"session-{number}")


def _mail(number: int) -> dict[str, str]:
    return {"to": "ann@example.org", "text": f"the minutes of meeting {number} are ready"}


def _messages(parts: list[str], number: int) -> Iterator[Context]:
    mail = _mail(number)
    yield {"role": "user", "content": f"Send {mail['to']} a mail that says: {mail['text']}."}
    for place, part in enumerate(parts):
        function = {"name": "read_note", "arguments": json.dumps({"note": place})}
        call = {"id": f"c{place}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{place}", "content": json.dumps({"note": part})}


def _before_model(parts: list[str], number: int) -> Context:
    return _builder(number).pre_model_call(model_id="model", messages=list(_messages(parts, number)))


def _before_tool(parts: list[str], number: int) -> Context:
    made: Context = _builder(number).pre_tool_call(call_id="call", name="send_mail", args=_mail(number))
    return {**made, "messages": list(_messages(parts, number)), "tools": [_TOOL]}


def _after_tool(parts: list[str], number: int) -> Context:
    value = [{"note": part, "number": place} for place, part in enumerate(parts)]
    made: Context = _builder(number).post_tool_call(
        call_id="call", name="read_notes", args={"of": "Monday"}, value=value, is_error=False
    )
    return made


_MAKERS: Final[dict[str, Callable[[list[str], int], dict[str, Any]]]] = {
    "pre_model_call": _before_model,
    "pre_tool_call": _before_tool,
    "post_tool_call": _after_tool,
}
POINTS: Final = tuple(_MAKERS)
