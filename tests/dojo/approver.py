"""The scripted user: approves exactly the calls of their own task, each as often as it is in it, no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from agent_hooks import ApprovalOutcome, ApprovalRequest, ApprovalResolution, Verdict
from agentdojo.functions_runtime import FunctionCall


class TaskOwner:
    """An approval resolver for one run; ``asked`` holds the reason of every question."""

    def __init__(self, calls: Sequence[FunctionCall]) -> None:
        self._wanted = [_written(call.function, call.args) for call in calls]
        self.asked: list[str] = []

    def resolve(self, request: ApprovalRequest, /) -> ApprovalResolution:
        """Approve a call of the task that has not been approved before."""
        self.asked.append(request.verdict.reason or "")
        call = request.context.get("tool_call", {})
        asked = _written(call.get("name"), call.get("args"))
        if asked not in self._wanted:
            refused = Verdict.deny(reason="user:refused", message="The user did not want this.")
            return ApprovalResolution(ApprovalOutcome.REJECT, request.context_identity, refused)
        self._wanted.remove(asked)
        return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, Verdict.allow())


def _written(name: Any, args: Any) -> bytes:
    return msgspec.json.encode([name, args], order="sorted", enc_hook=lambda value: value.model_dump())
