"""Context identities (AGENT-HOOKS-0.1 §10): the three kinds of provider, each computed once per state."""

from __future__ import annotations

import hashlib
from typing import Final

from agent_hooks import JCS_SHA256, AgentContext, AgentHooksCoreError, IdentityProvider, context_identity

from hookbus import OutOfDomain, codec
from hookbus.context import Prepared
from hookbus_client.contexts import CONDITIONAL
from hookbus_client.failclosed import call_identity_provider

#: What ``identity_provider`` may be: the default's name, a host's own, or none.
Provider = str | IdentityProvider | None

_CORE: Final[tuple[tuple[str, tuple[str, ...] | None], ...]] = (
    ("spec", None),
    ("interception_point", None),
    ("timestamp", None),
    ("sequence", None),
    ("agent", ("id", "framework")),
    ("session", ("id",)),
    ("target", None),
)


def provider_name(provider: Provider) -> str | None:
    """Return the name that records carry for *provider*."""
    return provider.name if isinstance(provider, IdentityProvider) else provider


def identity(provider: Provider, prepared: Prepared) -> str | None:
    """Return the identity of *prepared*, which has a valid envelope; None exactly if there is no provider.

    Raises :class:`hookbus.OutOfDomain` where the provider fails or, for ``jcs-sha256``, where the projection
    is outside I-JSON (§10.2).
    """
    if provider is None:
        return None
    if isinstance(provider, IdentityProvider):
        return call_identity_provider(provider.fn, prepared.context)
    return _jcs_sha256(prepared)


def _jcs_sha256(prepared: Prepared) -> str:
    domain = prepared.domain
    if not domain.sorts_exactly:
        # What disturbs may stand outside the projection, where it does not count.
        domain = codec.survey(_projection(prepared.context))
    if domain.big_integers:
        raise OutOfDomain("an integer is beyond 2^53; write 64-bit identifiers as strings (§4.4)")
    if domain.sorts_exactly:
        preimage = codec.encode_sorted(_projection(prepared.encodable))
        return f"sha256:{hashlib.sha256(preimage).hexdigest()}"
    try:
        return context_identity(_projection(prepared.context))
    except (AgentHooksCoreError, ValueError):
        # A lone surrogate is a UnicodeEncodeError, which is a ValueError.
        raise OutOfDomain(f"the context is outside the domain of {JCS_SHA256} (§10.2)") from None


def _projection(context: AgentContext) -> dict[str, codec.Json]:
    """Return the closed projection of §10.2: the required core and the point's own fields."""
    projected: dict[str, codec.Json] = {}
    for field, members in (*_CORE, *CONDITIONAL[context["interception_point"]]):
        value = context[field]
        projected[field] = value if members is None else {m: value[m] for m in members}
    return projected
