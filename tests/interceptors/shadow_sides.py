"""Two sides of a trial, which do as the arguments of a tool call say: ``current`` and ``candidate``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_hooks import Verdict

import hookbus
from hookbus_interceptors import decided_by, question
from hookbus_interceptors.authoring import (
    Interceptor,
    OutputContext,
    PreToolCallContext,
    allow,
    deny,
    escalate,
    output,
    pre_tool_call,
    replace,
)
from hookbus_interceptors.configuration import Configuration, FileText
from hookbus_interceptors.configured import Configured
from tests.worker.interceptors import Wire

Context = dict[str, Any]

#: Ends every call that hangs.
RELEASED = threading.Event()


class FaultOfIts(Exception):  # its name is what is kept
    """What a side raises, with a payload in its message."""


def behave(how: str, context: Context) -> Any:
    """Answer, or fail, as *how* says, at once."""
    match how:
        case "allow":
            return allow()
        case "allow as a dict":
            return {"decision": "allow"}
        case "allow as another object":
            return Wire({"decision": "allow"})
        case "deny":
            return deny("side:no", "A message.")
        case "deny otherwise":
            return deny("side:otherwise")
        case "deny with the payload":
            return deny(f"denied {context['session']['id']}!")
        case "escalate":
            return escalate("side:no")
        case "replace":
            return replace("$target.text", "…")
        case "replace otherwise":
            return replace("$target.text", "")
        case "label":
            return allow(labels=["seen"])
        case "raise":
            raise FaultOfIts(context["session"]["id"])
        case "exit":
            raise SystemExit(3)
        case "cancel":
            raise asyncio.CancelledError
        case "nothing":
            return None
        case "nonsense":
            return {"decision": "perhaps"}
        case "no json":
            return {"decision": "allow", "reason": {1, 2}}
        case "to_wire raises":
            return Wire(Wire(1))
        case "spoil":
            spoil(context)
            return allow()
        case "decided by another":
            decided_by("another")
            return deny("side:no")
    raise AssertionError(how)


#: None of them takes time.
PROMPT = (
    *("allow", "allow as a dict", "allow as another object", "deny", "deny otherwise", "deny with the payload"),
    *("escalate", "replace", "replace otherwise", "label", "raise", "exit", "cancel", "nothing", "nonsense"),
    *("no json", "to_wire raises", "spoil", "decided by another"),
)
ALL = (*PROMPT, "hang", "hold the loop")


def spoil(context: Context) -> None:
    """Take everything out of *context*, at every depth."""
    for value in list(context.values()):
        if isinstance(value, dict):
            spoil(value)
    context.clear()


class Sync:
    """Answers in a thread."""

    policy_version: str | None = None

    def __init__(self, side: str) -> None:
        self._side = side

    def intercept(self, context: Context, /) -> Any:
        how = context["tool_call"]["args"][self._side]
        if how in ("hang", "hold the loop"):
            RELEASED.wait()
            how = "allow"
        return behave(how, context)


class Async(Sync):
    """Answers in a task."""

    async def intercept(self, context: Context, /) -> Any:
        how = context["tool_call"]["args"][self._side]
        if how == "hold the loop":
            RELEASED.wait()
            how = "allow"
        if how == "hang":
            await asyncio.Event().wait()
        if how == "end the loop":
            asyncio.get_running_loop().call_soon(sys.exit)
            how = "allow"
        return behave(how, context)


class Versioned(Async):
    """Answers in a task, as a version of its own."""

    policy_version = "7"


class Later(Sync):
    """A plain function that returns an awaitable."""

    def intercept(self, context: Context, /) -> Any:
        return Async(self._side).intercept(context)


def as_function(context: Context) -> Any:
    """The current one, as a plain function."""
    return Sync("current").intercept(context)


current, current_async, current_later = Sync("current"), Async("current"), Later("current")
candidate, candidate_async, candidate_later = Sync("candidate"), Async("candidate"), Later("candidate")
candidate_versioned = Versioned("candidate")


class RefusedWords(Configuration):
    """Which tools are refused, by a file or a list."""

    tools: frozenset[str] = frozenset()
    listed: FileText = ""


class RefuseWords(Configured[RefusedWords]):
    """Denies a tool by its name, with a reason of the setting's version."""

    @pre_tool_call
    def judge(self, context: PreToolCallContext) -> Verdict:
        """Deny what is refused."""
        refused = context.tool_call.name in {*self.configuration.tools, *self.configuration.listed.split()}
        return deny(f"refused:{self.configuration.version}") if refused else allow()


class Holding:
    """Has a lifespan, and denies with what became of it; raises when it is told to."""

    raises = False

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Remember the loop."""
        assert not bus.is_connected
        if self.raises:
            raise FaultOfIts
        self.loop = asyncio.get_running_loop()
        yield

    async def intercept(self, context: Context, /) -> Verdict:
        """Deny, with whether it runs on the loop of its lifespan."""
        assert question().remaining_s > 0
        return deny("held:same" if asyncio.get_running_loop() is self.loop else "held:another")


class HoldingNothing(Holding):
    """Its lifespan raises."""

    raises = True


class Held(Sync):
    """A sync one with a lifespan."""

    def __init__(self) -> None:
        super().__init__("current")

    @asynccontextmanager
    async def lifespan(self, _bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold nothing."""
        yield


class Everywhere(Interceptor):
    """Allows at two points."""

    @pre_tool_call
    def call(self, _context: PreToolCallContext) -> Verdict:
        """Allow."""
        return allow()

    @output
    def says(self, _context: OutputContext) -> Verdict:
        """Allow."""
        return allow()


class Target:
    """Allows, and labels with what it saw."""

    def intercept(self, context: Context, /) -> Verdict:
        """Say what the target is."""
        return allow(labels=[repr(context["target"])])
