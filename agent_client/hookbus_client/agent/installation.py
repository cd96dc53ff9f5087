"""One complete set of interception points per agent: no second installation, and no half one.

Sharing is fine: many agents and many sessions may use one emitter, one client, one model, one
tool, because an agent changes none of them and every session numbers its own contexts. What is
refused is what would make a call reach interceptors twice, or not at all:

- a model, its client, a tool or its function that something else mediates already. Whatever
  wraps such an object for an emitter says so with :func:`mark_mediated`;
- a hook that is deployed as an interceptor, handed in as a local hook as well;
- an agent in place of a function: ``agent.as_tool()`` gives it its own bracket;
- a nested agent without an emitter under an agent that has one;
- an emitter without all of its methods, or without the one that incremental mediation needs;
- a declaration that says another posture, or buffered output where the agent is incremental;
- two live sessions with one session id on one emitter: their sequence numbers would collide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hookbus_client.agent.definition import Posture
from hookbus_client.agent.errors import HalfInstallation, SecondInstallation, SessionMisused
from hookbus_client.agent.hooks import Hooks
from hookbus_client.agent.tools import Tool

MARK = "__hookbus_mediated__"

_live: set[tuple[int, str]] = set()


def mark_mediated(thing: Any) -> None:
    """Say that calls of *thing* are emitted already, so that no agent emits them again."""
    setattr(thing, MARK, True)


def refuse_mediated(thing: object, what: str, instead: str) -> None:
    """Raise :class:`SecondInstallation` when *thing* carries the mark."""
    if getattr(thing, MARK, False):
        raise SecondInstallation(what, instead)


def check_emitter(emitter: object, *, incremental: bool) -> None:
    """Raise :class:`HalfInstallation` when *emitter* lacks a method that a run may need."""
    if emitter is None:
        return
    methods = ["emit", "emit_unchecked", "record_host_failure"]
    if incremental:
        methods.append("record_host_denial")
    for method in methods:
        if not callable(getattr(emitter, method, None)):
            raise HalfInstallation("the emitter", f"it has no {method}()")
    declaration = getattr(emitter, "declaration", None)
    if incremental and declaration is not None and declaration.surface["buffered_output"]:
        raise HalfInstallation("the emitter", "its declaration says buffered_output, the agent incremental")


def agreed_posture(emitter: object, wanted: Posture | None) -> Posture:
    """Return the posture at the tool seam (§13.1): *wanted*, or what the emitter's declaration says.

    Raises :class:`HalfInstallation` when the two differ: what is declared must be what runs.
    """
    declaration = getattr(emitter, "declaration", None)
    if declaration is None:
        return wanted or "continue"
    declared: Posture = declaration.configuration["posture"]["tool_seam_host_error"]
    if wanted not in (None, declared):
        raise HalfInstallation("the emitter", f"its declaration says {declared}, the agent {wanted}")
    return declared


def check_model(model: object) -> None:
    """Refuse a model that is no model, or that is mediated already."""
    for method in ("complete", "stream"):
        if not callable(getattr(model, method, None)):
            raise HalfInstallation("the model", f"it has no {method}(); wrap a client in OpenAIModel")
    instead = "give the agent the bare one"
    refuse_mediated(model, "the model", instead)
    refuse_mediated(getattr(model, "client", None), "the model's client", instead)


def check_source(source: object) -> None:
    """Refuse a function, or a tool, that is mediated already or belongs to an agent."""
    name = getattr(source, "name", None) or getattr(source, "__name__", type(source).__name__)
    for part in (source, getattr(source, "source", None)):
        refuse_mediated(part, f"tool {name!r}", "give the agent the bare function")
        if hasattr(getattr(part, "__self__", None), "as_tool"):
            raise SecondInstallation(f"tool {name!r}", "pass agent.as_tool() for a nested agent")


def check_nesting(tools: Mapping[str, Tool], emitter: object) -> None:
    """Refuse a nested agent that would escape the emitter of its parent."""
    for name, tool in tools.items():
        bare = hasattr(tool.source, "as_tool") and getattr(tool.source, "emitter", None) is None
        if emitter is not None and bare:
            raise HalfInstallation(f"nested agent {name!r}", "it has no emitter and its parent has one")


def check_hooks(hooks: Hooks) -> None:
    """Refuse a hook that is an interceptor: it answers through the emitter."""
    for name in Hooks.__dataclass_fields__:
        if hasattr(getattr(hooks, name), "intercept"):
            raise SecondInstallation(f"hook {name}", "register it on the emitter or pass the plain function")


@contextmanager
def live(emitter: object, session_id: str) -> Iterator[None]:
    """Hold *session_id* on *emitter*. Raises :class:`SessionMisused` when it is held already."""
    claim = (id(emitter), session_id)
    if claim in _live:
        raise SessionMisused("this session id is live on this emitter already; take another")
    _live.add(claim)
    try:
        yield
    finally:
        _live.discard(claim)
