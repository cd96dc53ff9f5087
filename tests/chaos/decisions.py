"""What each interceptor of the soak decides of a call: known to the workers that answer and to the oracle."""

from __future__ import annotations

from typing import Any, Final

#: Where the redactor puts its replacement.
SECRET_PATH: Final = "$target.secret"
REDACTED: Final = "[redacted]"

POLICY, LIMITS, REDACTOR, AUDIT = "policy", "limits", "redactor", "audit"


def decision(interceptor: str, args: dict[str, Any]) -> str:
    """Return ``allow``, ``deny`` or ``transform``: what an honest *interceptor* says of a call with *args*."""
    number = args["number"]
    if interceptor == POLICY and number % 40 == 7:
        return "deny"
    if interceptor == LIMITS and number % 50 == 13:
        return "deny"
    if interceptor == REDACTOR and "secret" in args:
        return "transform"
    return "allow"
