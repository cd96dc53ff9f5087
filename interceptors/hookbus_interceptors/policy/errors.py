"""What a policy raises; no message quotes a policy, and none holds a word of a payload.

HookbusError (hookbus)
├── Undecided      an expression has no value for this context
└── PolicyInvalid  the runtime does not take the policy
"""

from __future__ import annotations

import re
from typing import Final

from hookbus import HookbusError

#: How the engines tell a place: ``<input>:3:14``, ``limits/0.rego:3:14``, ``at line 3, column 14``.
_PLACE: Final = re.compile(r"([\w./-]+\.rego)?(?::|\bline )(\d+)(?::|,? column )(\d+)\b")


class Undecided(HookbusError, ValueError):
    """An expression has no value for this context; ``why`` is the type of the engine's own error."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the expression cannot be decided ({why})")


class PolicyInvalid(HookbusError, ValueError):
    """The runtime does not take the policy; ``why`` says which part and where, and quotes nothing."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the policy cannot be used: {why}")


def place_in(error: Exception) -> str:
    """Return where an engine found *error* in the text of a policy: `` (line 3, column 14)``, or nothing."""
    found = _PLACE.search(str(error))
    if found is None:
        return ""
    file, line, column = found.groups()
    return f" ({file + ', ' if file else ''}line {line}, column {column})"
