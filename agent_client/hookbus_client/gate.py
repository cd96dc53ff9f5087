"""The gate every verdict passes (AGENT-HOOKS-0.1 §5): bytes from a worker, or an object from this process."""

from __future__ import annotations

from typing import Any, Final

from agent_hooks import ALLOW, AgentHooksCoreError, Decision, HostError, InterceptorResponse, Transform, Verdict

from hookbus import HookbusError, OutOfDomain, Undecodable, codec
from hookbus_client.composition import replaced

_BARE_ALLOW: Final = b'{"decision":"allow"}'


class NotAVerdict(HookbusError, ValueError):
    """What came back fails §5; ``reason`` is the reserved reason it is denied with. Nothing of it is told."""

    def __init__(self, reason: HostError) -> None:
        self.reason = reason
        super().__init__(f"not a verdict ({reason.value})")


def verdict_of_bytes(body: bytes) -> Verdict:
    """Return the verdict in *body*, bare or in the response envelope of §5.5; raise :class:`NotAVerdict`.

    The standard's own gate decides what a verdict is; before it the bytes pass the strict parse, and the
    value of a transform is taken from that parse, so no number is rounded on the way (§4.4).
    """
    if body == _BARE_ALLOW:
        return ALLOW
    try:
        document = codec.parse_strictly(body)
        verdict: Verdict = InterceptorResponse.parse(body.decode("utf-8")).verdict
    except Undecodable:
        raise NotAVerdict(HostError.VERDICT_INVALID) from None
    except AgentHooksCoreError as error:
        raise NotAVerdict(_reason(error)) from None
    except ValueError:
        raise NotAVerdict(HostError.VERDICT_INVALID) from None
    if verdict.decision is Decision.TRANSFORM and verdict.transform is not None:
        wire = document.get("verdict", document)
        exact = Transform(verdict.transform.path, wire["transform"].get("value"))
        verdict = replaced(verdict, transform=exact)
    return verdict


def verdict_of_object(returned: Any) -> Verdict:
    """Return the verdict an interceptor or resolver of this process returned; raise :class:`NotAVerdict`."""
    wire = returned
    if isinstance(returned, Verdict):
        if returned is ALLOW:
            return returned
        wire = returned.to_wire()
    try:
        return verdict_of_bytes(codec.encode(wire, codec.survey(wire)))
    except OutOfDomain:
        raise NotAVerdict(HostError.VERDICT_INVALID) from None


def _reason(error: AgentHooksCoreError) -> HostError:
    # A path outside the grammar of §5.2 has reserved reasons of its own.
    try:
        return HostError(error.code)
    except ValueError:
        return HostError.VERDICT_INVALID
