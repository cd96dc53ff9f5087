"""The conversation that a tool call comes from, as its context shows it: who said what, and which tool gave what.

A host shows it in ``messages`` (§4.5), in the chat form that most of them share: ``role``, ``content`` (text, or a
list of parts), ``tool_calls`` of the assistant, ``tool_call_id`` of what a tool gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from hookbus.codec import Json

#: Roles that speak for the people who run the agent and use it.
_SPEAKERS: Final = {"user": "user", "system": "system", "developer": "system"}
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
    #: The tools that the model has asked for in earlier responses, with the arguments it gave.
    called: tuple[tuple[str, dict[str, Json]], ...] = ()


def conversation_of(context: Mapping[str, Json]) -> Conversation:
    """Return the conversation in *context*; what is not of the shape above is passed over."""
    messages = context.get("messages")
    if not isinstance(messages, list):
        return Conversation(shown=False)
    said: dict[str, list[str]] = {"user": [], "system": []}
    calls: dict[str, tuple[str, dict[str, Json]]] = {}
    called: list[tuple[str, dict[str, Json]]] = []
    given: list[Given] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        role, content = message.get("role"), message.get("content")
        if role in _SPEAKERS:
            said[_SPEAKERS[role]].append(text_of(content))
        elif role in _TOOL_ROLES:
            tool, args = calls.get(str(message.get("tool_call_id")), (str(message.get("name", "")), {}))
            given.append(Given(tool, args, text_of(content)))
        for identifier, tool, args in _calls(message):
            calls[identifier] = tool, args
            called.append((tool, args))
    return Conversation(True, tuple(said["user"]), tuple(said["system"]), tuple(given), tuple(called))


def text_of(content: Json) -> str:
    """Return every string in *content*, one to a line."""
    return content if isinstance(content, str) else "\n".join(_strings(content))


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def _calls(message: Mapping[str, Json]) -> Iterator[tuple[str, str, dict[str, Json]]]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict):
            continue
        function: Any = call.get("function")
        body = function if isinstance(function, dict) else call
        args = body.get("arguments", body.get("args"))
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
