"""Questions about a tool call with the conversation that it comes from, as a host shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hookbus_interceptors.authoring.testing import Answer, TestClient

#: A tool that was called, its arguments, and what it gave.
Looked = tuple[str, Mapping[str, Any], Any]


def conversation(user: str | None, *looked: Looked, system: str | None = None) -> list[dict[str, Any]]:
    """Return chat messages: what the user said, then each call with its result."""
    messages: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    if user is not None:
        messages.append({"role": "user", "content": user})
    for number, (tool, args, gave) in enumerate(looked):
        function = {"name": tool, "arguments": json.dumps(args)}
        call = {"id": f"call-{number}", "type": "function", "function": function}
        text = gave if isinstance(gave, str) else json.dumps(gave)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call-{number}", "content": text})
    return messages


def ask(
    interceptor: object,
    tool: str,
    args: Mapping[str, Any],
    messages: Sequence[Any] | None,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Answer:
    """Ask *interceptor* about a call of *tool* at the end of *messages*."""
    context: dict[str, Any] = {
        "spec": "agent-hooks/0.1",
        "interception_point": "pre_tool_call",
        "timestamp": "2026-11-30T12:00:00Z",
        "sequence": 7,
        "agent": {"id": "a", "framework": "test"},
        "session": {"id": "s"},
        "target": dict(args),
        "tool_call": {"id": "call", "name": tool, "args": dict(args)},
    }
    if messages is not None:
        context["messages"] = list(messages)
    if tools is not None:
        context["tools"] = [dict(each) for each in tools]
    if labels is not None:
        context["extensions"] = {name: {"source_labels": list(each)} for name, each in labels.items()}
    return TestClient(interceptor).ask(context)
