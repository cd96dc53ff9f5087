"""What an answer comes to for a host, for who compares answers or tests an interceptor."""

from __future__ import annotations

from agent_hooks import AgentHooksCoreError, HostError, InterceptionPoint, InterceptorResponse, Verdict
from agent_hooks.path import PathError, apply

from hookbus import Undecodable, codec
from hookbus.codec import Json


def gated(body: bytes, context: dict[str, Json]) -> tuple[Verdict, Json]:
    """Return the verdict in *body*, an answer to *context*, and the target that it leaves; never raises.

    The standard's own gate decides. Whatever is no verdict, or a transform that cannot be applied, is the deny
    that is reserved for it, and leaves the target as it is. (AGENT-HOOKS-0.1 §5.)
    """
    target = context["target"]
    try:
        codec.parse_strictly(body)
        verdict = InterceptorResponse.parse(body.decode("utf-8")).verdict
        if verdict.transform is not None:
            if not InterceptionPoint(context["interception_point"]).transform_permitted:
                return Verdict.host_error(HostError.TRANSFORM_TARGET_FORBIDDEN), target
            target = apply(target, verdict.transform.path, verdict.transform.value)
    except (Undecodable, AgentHooksCoreError, ValueError) as error:
        return Verdict.host_error(_reason(error)), context["target"]
    return verdict, target


def _reason(error: Exception) -> HostError:
    if isinstance(error, PathError):
        return error.host_error
    # A path outside the grammar of §5.2 has reserved reasons of its own.
    code = error.code if isinstance(error, AgentHooksCoreError) else None
    return HostError(code) if code in set(HostError) else HostError.VERDICT_INVALID
