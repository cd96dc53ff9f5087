"""Labels that interceptors give to data, kept with it and brought back with it (§5.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from agent_hooks import AgentContext, InterceptionRecord

Labels = tuple[str, ...]

DEFAULT_NAMESPACE = "hookbus"

#: What the call in progress derives from. A nested agent's input inherits it.
inherited: ContextVar[Labels] = ContextVar("hookbus_source_labels", default=())


def union(*groups: Iterable[str]) -> Labels:
    """Return every label once, in the order first seen (§7.3)."""
    return tuple(dict.fromkeys(label for group in groups for label in group))


def earned(record: InterceptionRecord) -> Labels:
    """Return the labels to persist: none unless the emission proceeded on a permit (§5.4)."""
    if record.proceeds and record.verdict.decision.permits:
        return tuple(record.verdict.result_labels)
    return ()


def namespaces(names: Sequence[str]) -> tuple[str, ...]:
    """Return *names* as extension namespaces: '-' becomes '_'. Raises ValueError on any other fault (§4.6)."""
    spelled = tuple(name.replace("-", "_") for name in names)
    for name in spelled:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in {"acs", "ctk", "agent_hooks"}:
            raise ValueError(f"{name!r} cannot be a label namespace (§4.6)")
    return spelled


def attach(context: AgentContext, sources: Labels, names: Sequence[str]) -> None:
    """Put *sources* on *context* as ``extensions.<name>.source_labels`` for each name.

    A combined record does not say which interceptor gave which label, so every namespace gets
    the union.
    """
    if not sources:
        return
    extensions: dict[str, Any] = dict(context.get("extensions") or {})
    for name in names:
        extensions[name] = {**extensions.get(name, {}), "source_labels": list(sources)}
    context["extensions"] = extensions
