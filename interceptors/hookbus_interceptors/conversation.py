"""The conversation that a tool call comes from, as its context shows it: who said what, and which tool gave what.

A host shows it in ``messages`` (§4.5), in one of two forms: chat completions (``tool_calls`` of the assistant,
messages of the role ``tool``), or parts (``tool_use`` of the assistant, ``tool_result`` in the user's place).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from hookbus.codec import Json

#: Roles that speak for the people who run the agent and use it.
_SPEAKERS: Final = {"user": "user", "system": "system", "developer": "system"}
_TEXT_TYPES: Final = frozenset({"text", "input_text"})
_TOOL_ROLES: Final = frozenset({"tool", "function"})


class Given(msgspec.Struct, frozen=True):
    """What one call of a tool gave."""

    tool: str
    args: dict[str, Json]
    text: str


class Conversation(msgspec.Struct, frozen=True):
    """What was said and what tools gave, in order. ``shown`` is whether the host shows a conversation at all."""

    shown: bool
    user: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    #: Whether some of it is not of a form that is read here. Who said that is not known.
    unread: bool = False


def conversation_of(context: Mapping[str, Json]) -> Conversation:
    """Return the conversation in *context*; what is not of the forms above belongs to nobody."""
    messages = context.get("messages")
    if not isinstance(messages, list):
        return Conversation(shown=False)
    said: dict[str, list[str]] = {"user": [], "system": []}
    calls: dict[str, tuple[str, dict[str, Json]]] = {}
    given: list[Given] = []
    unread = False
    for message in messages:
        if not isinstance(message, dict):
            unread = True
            continue
        role, content = message.get("role"), message.get("content")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") == "tool_result":
                given.append(_given(part.get("tool_use_id"), part, calls))
            elif role in _TOOL_ROLES:
                given.append(_given(message.get("tool_call_id"), {**message, "content": part}, calls))
            elif (text := _spoken(part)) is None:
                unread = unread or role != "assistant"
            elif role in _SPEAKERS:
                said[_SPEAKERS[role]].append(text)
            else:
                unread = unread or role != "assistant"
        calls |= {identifier: (tool, args) for identifier, tool, args in _calls(message)}
    return Conversation(True, tuple(said["user"]), tuple(said["system"]), tuple(given), unread)


def text_of(content: Json) -> str:
    """Return every string in *content*, one to a line."""
    return content if isinstance(content, str) else "\n".join(_strings(content))


def _spoken(part: Json) -> str | None:
    """Return the text of a part that is nothing but text."""
    if part is None or isinstance(part, str):
        return part or ""
    if isinstance(part, dict) and part.get("type", "text") in _TEXT_TYPES and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def _given(identifier: Json, body: Mapping[str, Json], calls: Mapping[str, tuple[str, dict[str, Json]]]) -> Given:
    tool, args = calls.get(str(identifier), (str(body.get("name", "")), {}))
    return Given(tool, args, text_of(body.get("content")))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def _calls(message: Mapping[str, Json]) -> Iterator[tuple[str, str, dict[str, Json]]]:
    calls, content = message.get("tool_calls"), message.get("content")
    parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
    for call in [*(calls if isinstance(calls, list) else []), *(p for p in parts if p.get("type") == "tool_use")]:
        if not isinstance(call, dict):
            continue
        function: Any = call.get("function")
        body = function if isinstance(function, dict) else call
        args = body.get("arguments", body.get("args", body.get("input")))
        if isinstance(args, str):
            args = _decoded(args)
        name = body.get("name")
        if isinstance(name, str):
            yield str(call.get("id")), name, args if isinstance(args, dict) else {}


def _decoded(text: str) -> Json:
    try:
        decoded: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return decoded
