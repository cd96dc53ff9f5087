"""``redact``: no personal data and no secret passes in the clear.

What it stops: e-mail addresses, telephone numbers, IP addresses, bank accounts, cards, identifiers of many
countries and secrets, in any string, number or name at any depth of the target, hidden by spaces, other digits or
zero-width characters too. What it cannot: data without a form of its own, and what is encoded. How it fails:
whatever it cannot look through raises, which denies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent_hooks import InterceptionPoint

from hookbus_interceptors.authoring import Context, Verdict, allow, at, deny, replace
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.recent import Recent
from hookbus_interceptors.redact.configuration import KINDS, RedactConfiguration
from hookbus_interceptors.redact.contacts import Emails, Machines, Phones
from hookbus_interceptors.redact.credentials import Credentials
from hookbus_interceptors.redact.found import Finder
from hookbus_interceptors.redact.national_ids import CARDS, NATIONAL_IDS
from hookbus_interceptors.redact.numbers import Numbers
from hookbus_interceptors.redact.redaction import Path, Redaction, Refused, change
from hookbus_interceptors.redact.tokens import digest, token

#: What a model's messages and answers are held together by: it is the host's, and the next call fails without it.
_MESSAGE: Final[frozenset[Path]] = frozenset(
    [("*", each) for each in ("role", "type", "id", "name", "call_id", "tool_call_id")]
    + [("*", "tool_calls", "*", each) for each in ("id", "type", "name")]
    + [("*", "content", "*", each) for each in ("id", "type", "name", "tool_use_id")]
    + [("*", "tool_calls", "*", "function", "name")]
)
_RESPONSE: Final[frozenset[Path]] = frozenset(
    [("finish_reason",), ("tool_calls", "*", "id"), ("tool_calls", "*", "name")]
)
_FIXED: Final[dict[InterceptionPoint, frozenset[Path]]] = {
    InterceptionPoint.INPUT: frozenset({("role",)}),
    InterceptionPoint.PRE_MODEL_CALL: _MESSAGE,
    InterceptionPoint.POST_MODEL_CALL: _RESPONSE,
}

#: Where a transform may change the target (§5.2).
_CHANGEABLE: Final = [point for point in InterceptionPoint if point.transform_permitted]


class Redact(Configured[RedactConfiguration]):
    """Replaces, hashes or refuses personal data and secrets in the target."""

    def __init__(self, configuration: RedactConfiguration) -> None:
        super().__init__(configuration)
        self._finders = tuple(_finders(configuration))
        self._clean = Recent[bool](configuration.remember)
        self._key = b"" if configuration.key is None else configuration.key.get_secret_value().encode()
        self._actions = {
            point: {kind: configuration.action(kind, point) for kind in KINDS} for point in InterceptionPoint
        }

    @at(*_CHANGEABLE)
    def redact(self, context: Context) -> Verdict:
        """Return the transform that takes out what is found, or a deny where it is to be refused."""
        point, target = context.point, context.target
        actions = self._actions[point]

        def instead(kind: str, piece: str) -> str:
            return digest(kind, piece, self._key) if actions[kind] == "hash" else token(kind)

        refused, kept = (
            frozenset(kind for kind, action in actions.items() if action == what) for what in ("refuse", "keep")
        )
        fixed = _FIXED.get(point, frozenset())
        redaction = Redaction(self._finders, instead, refused=refused, kept=kept, fixed=fixed, clean=self._clean)
        try:
            redacted = redaction.value(target)
        except Refused as refusal:
            reason = f"redact:{refusal.kind.casefold().replace('_', '-')}"
            return deny(reason, f"{refusal.place} has {refusal.kind} in it, which may not pass here.")
        if redacted is target:
            return allow()
        path, value = change(target, redacted)
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(redaction.counts.items()))
        return replace(path, value, reason="redact:replaced", message=f"Replaced: {told}.")


def _finders(configuration: RedactConfiguration) -> Iterator[Finder]:
    yield Credentials(configuration.secret_names)
    yield Numbers([*CARDS, *(each for each in NATIONAL_IDS if each.country in configuration.countries)])
    yield Emails()
    yield Machines(private=configuration.private_addresses)
    yield Phones(configuration.phone_regions)
    if configuration.people is not None:
        # Presidio is large, and here only where it is asked for.
        from hookbus_interceptors.redact.people import People

        yield People(configuration.people)
