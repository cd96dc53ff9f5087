"""Where what other people's code raises becomes a deny: the only module here that catches everything.

Interceptors in process, the approval resolver, its redactor and a host's identity provider are called through
this module; each fault has one outcome (AGENT-HOOKS-0.1 §6.3, §9, §10.1) and only its type name is told (§14).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from agent_hooks import (
    AgentContext,
    ApprovalRequest,
    ApprovalResolver,
    HostError,
    Interceptor,
    Verdict,
)

from hookbus import Failure, OutOfDomain


def deny(failure: Failure, interceptor: str, detail: str = "") -> Verdict:
    """Return the deny that *failure* of *interceptor* becomes, with its class and sentence as the message."""
    sentence = failure.sentence(interceptor)
    return Verdict.host_error(HostError(failure.reason), f"{sentence} ({detail})" if detail else sentence)


async def call_interceptor(
    interceptor: Interceptor, context: AgentContext, timeout_s: float | None, name: str
) -> tuple[Any, Verdict | None]:
    """Return what an interceptor in this process returned, and the deny that replaces it if it failed.

    An awaited call is cut off after ``timeout_s`` seconds; a call that does not return an awaitable cannot
    be cut off, as in every host (§7).
    """
    try:
        returned: Any = interceptor.intercept(context)
        if inspect.isawaitable(returned):
            async with asyncio.timeout(timeout_s):
                returned = await returned
    except TimeoutError:
        return None, deny(Failure.SILENT, name)
    except Exception as error:  # noqa: BLE001  # every fault has one outcome: a deny
        return None, deny(Failure.RAISED, name, type(error).__name__)
    return returned, None


def call_identity_provider(provide: Callable[[AgentContext], str], context: AgentContext) -> str:
    """Return the identity that a host's own provider gives *context*.

    Raises :class:`hookbus.OutOfDomain`, which names the fault's type, when the provider raises or returns
    something else than a string (§10.1: fail closed, never unbind).
    """
    try:
        identity: object = provide(context)
    except Exception as error:  # noqa: BLE001  # every fault has one outcome: a deny
        raise OutOfDomain(f"the identity provider raised {type(error).__name__}") from None
    if not isinstance(identity, str):
        raise OutOfDomain("the identity provider returned no string")
    return identity


def call_redactor(redact: Callable[[AgentContext], AgentContext], context: AgentContext) -> AgentContext | Verdict:
    """Return the context to show an approver, or the deny that a failing redactor becomes (§9)."""
    try:
        return redact(context)
    except Exception as error:  # noqa: BLE001  # every fault has one outcome: a deny
        return Verdict.host_error(
            HostError.APPROVAL_RESOLVER_FAILED, f"the redactor raised {type(error).__name__}"
        )


async def call_resolver(
    resolver: ApprovalResolver, request: ApprovalRequest, timeout_s: float | None
) -> tuple[Any, Verdict | None]:
    """Return what the approval resolver returned, and the deny that replaces it if it failed (§9)."""
    failed = HostError.APPROVAL_RESOLVER_FAILED
    try:
        returned: Any = resolver.resolve(request)
        if inspect.isawaitable(returned):
            async with asyncio.timeout(timeout_s):
                returned = await returned
    except TimeoutError:
        return None, Verdict.host_error(failed, "the approval resolver was cut off at its timeout")
    except Exception as error:  # noqa: BLE001  # every fault has one outcome: a deny
        return None, Verdict.host_error(failed, f"the approval resolver raised {type(error).__name__}")
    return returned, None
