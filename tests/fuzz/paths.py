"""Transforms with paths near the grammar, through an emitter: the replacement, or a deny that touches nothing."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, NamedTuple

from agent_hooks import HostError

from hookbus_client import BusEmitter
from tests.fuzz import documents, reference
from tests.fuzz.target import Plain

REASONS = {
    HostError.TRANSFORM_INVALID.value,
    HostError.TRANSFORM_TARGET_FORBIDDEN.value,
    HostError.VERDICT_INVALID.value,
}
WITHOUT_TRANSFORM = ("agent_startup", "agent_shutdown")


class Case(NamedTuple):
    context: dict[str, Any]
    path: str
    value: Any


class _Transform:
    """Answers with the transform of the case."""

    wanted: dict[str, Any]

    async def intercept(self, _context: dict[str, Any], /) -> dict[str, Any]:
        return {"decision": "transform", "transform": self.wanted}


class Paths(Plain):
    """One emission, whose only interceptor transforms."""

    name = "paths"

    def __init__(self) -> None:
        self._transform = _Transform()
        self._emitter = BusEmitter(identity_provider=None)
        self._emitter.register(self._transform)

    def case(self, random: Random) -> Case:
        context = documents.context(random)
        return Case(context, documents.path(random, context["target"]), documents.value(random))

    async def check(self, case: Case) -> str:
        context = copy.deepcopy(case.context)
        self._transform.wanted = {"path": case.path, "value": case.value}
        record = await self._emitter.emit_unchecked(context)
        try:
            expected = reference.replaced(case.context["target"], case.path, case.value)
        except reference.Refused:
            expected = reference.Refused
        if record.verdict.reason == HostError.CONTEXT_INVALID.value:
            # The path leads to something without which there is no such context.
            assert not record.proceeds
            assert expected is not reference.Refused
            return "invalidated"
        if not record.proceeds:
            assert record.verdict.reason in REASONS
            assert context == case.context, "a refused transform has changed the context"
            assert expected is reference.Refused or case.context["interception_point"] in WITHOUT_TRANSFORM
            return "refused"
        assert expected is not reference.Refused, "a path that leads nowhere has permitted"
        assert _exact(context["target"]) == _exact(expected)
        unchanged = {name for name in context if name not in _holders(case.context)}
        assert {name: context[name] for name in unchanged} == {name: case.context[name] for name in unchanged}
        return "replaced"


def _holders(context: dict[str, Any]) -> set[str]:
    """Return the members that hold the target, or a copy of it."""
    held = {"input", "messages", "response", "tool_call", "tool_result", "output"}
    return {"target", *(held & set(context))}


def _exact(document: Any) -> str:
    return json.dumps(document, sort_keys=True)
