"""The demo's redactor: no identity document number passes it, in either direction."""

from __future__ import annotations

import re
from typing import Any

from agent_hooks import AgentContext, Decision, Transform, Verdict

# An Argentine identity document: the word, then eight digits or seven, with or without the points.
_DNI = re.compile(r"\b(DNI|D\.N\.I\.)\s*:?\s*\d{1,2}\.?\d{3}\.?\d{3}\b", re.IGNORECASE)


class DniRedactor:
    """Turns ``DNI 30.111.222`` into ``DNI ***`` wherever it stands in what is passed on.

    It looks at every text of the target, however deep: messages, arguments, results, output, keys included.
    """

    def intercept(self, context: AgentContext, /) -> Verdict:
        """Return a transform of the whole target when there was something to redact, else allow."""
        target = context["target"]
        redacted = redact(target)
        if redacted == target:
            return Verdict.allow()
        return Verdict(decision=Decision.TRANSFORM, transform=Transform(path="$target", value=redacted))


def redact(value: Any) -> Any:
    """Return a copy of a JSON *value* in which no text holds a document number."""
    match value:
        case str():
            return _DNI.sub(r"\1 ***", value)
        case list():
            return [redact(item) for item in value]
        case dict():
            return {redact(key): redact(item) for key, item in value.items()}
        case _:
            return value
