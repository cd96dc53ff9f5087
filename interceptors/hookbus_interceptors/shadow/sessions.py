"""Which sessions a trial is for: the same ones in every worker, and all of them again when the share grows."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from hookbus.codec import Json

#: The bits that a float holds exactly: with one more, the last places would round to 1.
_BITS: Final = 53


def place_of(salt: str, tenant: str | None, agent: str, session: str) -> float:
    """Return where a session stands between 0 and 1, 1 excluded: evenly spread, the same in every process."""
    digest = hashlib.sha256(msgspec.json.encode([salt, tenant, agent, session])).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) * 2.0**-_BITS


def is_chosen(context: dict[str, Json], share: float, salt: str) -> bool:
    """Whether the session of *context* is in *share*; one that says no session never is."""
    agent, session, tenant = (_id_of(context, block) for block in ("agent", "session", "tenant"))
    return agent is not None and session is not None and place_of(salt, tenant, agent, session) < share


def _id_of(context: dict[str, Json], block: str) -> str | None:
    found = context.get(block)
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None
