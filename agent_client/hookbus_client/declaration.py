"""Host declaration documents (AGENT-HOOKS-0.1 §7.7) that bind remote interceptors.

    {"id": "policy", "kind": "hookbus.remote", "config": {"interceptor": "policy"}, "timeout_ms": 500}

and, for a total budget of each emission, ``"extensions": {"hookbus": {"emission_budget_ms": 2000}}``.
"""

from __future__ import annotations

from typing import Final

import msgspec
from agent_hooks import (
    BindingContext,
    DeclarationError,
    DeclarationErrorClass,
    Finding,
    HostRegistry,
    HostSurface,
    ResolvedDeclaration,
)

from hookbus import Connection, RemoteInterceptor

KIND: Final = "hookbus.remote"


class RemoteConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ``config`` of a ``hookbus.remote`` binding."""

    #: The name its workers serve under.
    interceptor: str
    #: Declares it safe to repeat: after so many milliseconds of silence a second attempt goes out.
    hedge_after_ms: int | None = None
    #: The public keys one of which must have signed an answer; the trust file's where absent.
    keys: list[str] | None = None


class _Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    emission_budget_ms: int | None = None


def host_registry(bus: Connection, surface: HostSurface | None = None) -> HostRegistry:
    """Return a registry for ``BusEmitter.from_declaration*`` in which ``hookbus.remote`` means *bus*.

    Add identity providers, resolvers, redactors and other kinds to it as to any registry.
    """
    return register_remote(HostRegistry(surface), bus)


def register_remote(registry: HostRegistry, bus: Connection) -> HostRegistry:
    """Teach *registry* the kind ``hookbus.remote``, whose interceptors are asked over *bus*."""

    def remote(config: object, binding: BindingContext) -> RemoteInterceptor:
        try:
            wanted = msgspec.convert(config, RemoteConfig)
        except msgspec.ValidationError:
            raise ValueError(
                'config is {"interceptor": "<name>"}, and optionally "hedge_after_ms": <number>, "keys": [<key>]'
            ) from None
        if not wanted.interceptor:
            raise ValueError("config.interceptor must not be empty")
        hedge_after_s = None if wanted.hedge_after_ms is None else wanted.hedge_after_ms / 1000
        return bus.interceptor(wanted.interceptor, hedge_after_s=hedge_after_s, keys=wanted.keys)

    return registry.kind(KIND, remote)


def budget_of(declared: ResolvedDeclaration) -> float | None:
    """Return the emission budget, in seconds, that a document's ``hookbus`` extension sets, or None.

    Raises :class:`agent_hooks.DeclarationError` for an extension this version does not understand: what a
    document says is what runs, or nothing runs.
    """
    written = declared.extensions.get("hookbus")
    if written is None:
        return None
    try:
        budget_ms = msgspec.convert(written, _Extension).emission_budget_ms
    except msgspec.ValidationError:
        budget_ms = 0
    if budget_ms is None:
        return None
    if budget_ms <= 0:
        raise DeclarationError(
            DeclarationErrorClass.INVALID_FIELD,
            Finding("/extensions/hookbus", 'is {"emission_budget_ms": <milliseconds, 1 or more>}'),
        )
    return budget_ms / 1000
