"""Contexts of a given size, as an agent would emit them: histories of messages, not one long string."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from agent_hooks import AgentContext, AgentContextBuilder

from hookbus import codec
from hookbus.context import Outgoing, outgoing, prepare

#: Bytes of a context on the wire, by the name that cases use.
SIZES: Final = {
    "0.5 KB": 512,
    "4 KB": 4 * 1024,
    "13 KB": 13 * 1024,
    "64 KB": 64 * 1024,
    "256 KB": 256 * 1024,
    "4 MB": 4 * 1024 * 1024,
}
TOOL_CALL: Final = "tool call"

#: The agent of every contender.
AGENT: Final = "bench"
_TEXT: Final = (
    "the train to Mar del Plata leaves Friday at seven and arrives before noon first class second seat ticket "
    "window café niño señal 30.111.222 please find me a quiet one with a table “as cheap as possible” thanks\n"
)
_WORDS: Final = _TEXT.split(" ")
_ROLES: Final = ("user", "assistant", "tool")


def context_of(name: str) -> AgentContext:
    """Return a ``pre_model_call`` context of ``SIZES[name]`` bytes, give or take 1 %, or a small tool call."""
    contexts = AgentContextBuilder(agent_id=AGENT, framework="hookbus", session_id="bench")
    if name == TOOL_CALL:
        arguments = {
            "to": "Mar del Plata",
            "date": "2026-12-04",
            "seats": [11, 12],
            "notes": _prose(random.Random(7), 300),
        }
        return contexts.pre_tool_call(call_id="call_1", name="book_ticket", args=arguments)
    messages: list[dict[str, Any]] = []
    conversation = _messages()
    context = contexts.pre_model_call(model_id="bench-model", messages=messages)
    left = SIZES[name] - len(body_of(context).body)
    # Twice: a point's target is a second copy of what it is about (AGENT-HOOKS-0.1 §4.3).
    while (size := 2 * len(codec.encode(message := next(conversation), codec.survey(message))) + 2) < left:
        messages.append(message)
        left -= size
    messages.append({"role": "user", "content": _prose(random.Random(1), max(1, (left - 62) // 2))})
    return contexts.pre_model_call(model_id="bench-model", messages=messages)


def body_of(context: AgentContext) -> Outgoing:
    """Return *context* as it goes out."""
    return outgoing(prepare(context))


def session_bytes(turns: int) -> tuple[int, int]:
    """Return the bytes of a session's conversation and the bytes that each interceptor is sent of it.

    Each of *turns* turns adds a question, a tool's result and an answer, and its ``pre_model_call`` context holds
    all that came before.
    """
    contexts = AgentContextBuilder(agent_id=AGENT, framework="hookbus", session_id="bench")
    conversation, messages, sent = _messages(), list[dict[str, Any]](), 0
    for _ in range(turns):
        messages += [next(conversation) for _ in _ROLES]
        sent += len(body_of(contexts.pre_model_call(model_id="bench-model", messages=messages)).body)
    return len(codec.encode(messages, codec.survey(messages))), sent


def _messages() -> Iterator[dict[str, Any]]:
    """Yield the same conversation every time, without end."""
    chance = random.Random(0)
    number = 0
    while True:
        for role in _ROLES:
            number += 1
            message: dict[str, Any] = {"role": role, "content": _prose(chance, chance.randint(150, 700))}
            if role == "tool":
                message["tool_call_id"] = f"call_{number}"
            yield message


def _prose(chance: random.Random, length: int) -> str:
    words: list[str] = []
    left = length
    while left > 0:
        words.append(chance.choice(_WORDS))
        left -= len(words[-1].encode()) + 1
    return " ".join(words)
