"""Small interceptors, each with one habit."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from agent_hooks import Verdict

Context = dict[str, Any]


def allow(_context: Context) -> dict[str, str]:
    """Allow, in a thread."""
    return {"decision": "allow"}


class Deny:
    """Deny with the SDK's own verdict."""

    def intercept(self, context: Context, /) -> Verdict:
        return Verdict.deny(reason="because", message=context["interception_point"])


class AllowInTask:
    """Allow, as a coroutine."""

    async def intercept(self, _context: Context, /) -> Verdict:
        return Verdict.allow()


@dataclass
class Wire:
    """Something that is neither a dict nor the SDK's, and knows its wire form."""

    document: Any

    def to_wire(self) -> Any:
        return self.document


def hang(_context: Context) -> dict[str, str]:
    """Never return."""
    threading.Event().wait()
    return {"decision": "allow"}


async def hang_against_cancellation(_context: Context) -> dict[str, str]:
    """Never return, and take no cancellation."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def hang_in_the_executor(_context: Context) -> dict[str, str]:
    """Never return, in a thread that asyncio and the interpreter wait for."""
    await asyncio.to_thread(threading.Event().wait)
    return {"decision": "allow"}


async def exit_in_task(_context: Context) -> dict[str, str]:
    """Try to end the process, as a library might."""
    sys.exit(3)


async def take_a_while(_context: Context) -> dict[str, str]:
    """Work for 300 ms, as a coroutine."""
    await asyncio.sleep(0.3)
    return {"decision": "allow"}


def take_a_while_in_a_thread(_context: Context) -> dict[str, str]:
    """Work for 300 ms, in a thread."""
    time.sleep(0.3)
    return {"decision": "allow"}


async def hold_the_loop(_context: Context) -> dict[str, str]:
    """Block the worker's loop for ever."""
    print("holding", flush=True)
    threading.Event().wait()
    return {"decision": "allow"}


def misbehave(context: Context) -> object:
    """Do what the context's target says."""
    habit = context["target"]
    if habit == "raise":
        raise ValueError(f"a secret: {context}")
    if habit == "exit":
        sys.exit(3)
    if habit == "set":
        return {"decision": {"allow"}}
    if habit == "nan":
        return {"decision": "allow", "message": float("nan")}
    if habit == "none":
        return None
    if habit == "hang":
        return hang(context)
    if habit == "large":
        return {"decision": "allow", "message": "x" * 2_000_000}
    if habit == "die":
        os._exit(9)
    return {"decision": "allow"}
