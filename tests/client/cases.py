"""Random emissions: contexts, verdicts, profiles, knobs, modes, failures, resolutions, providers."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from agent_hooks import (
    AgentContextBuilder,
    ApprovalOutcome,
    ApprovalRequest,
    ApprovalResolution,
    CompositionConfig,
    EnforcementMode,
    IdentityProvider,
    OnApproval,
    SynthesisPolicy,
    Verdict,
)
from hypothesis import strategies as st

from tests.client.scripted import HANGS, RAISES, Behaviour

POINTS = (
    "agent_startup",
    "input",
    "pre_model_call",
    "post_model_call",
    "pre_tool_call",
    "post_tool_call",
    "output",
    "agent_shutdown",
)


@dataclasses.dataclass(frozen=True)
class Resolution:
    """What the approval resolver does."""

    outcome: str
    verdict: Any = None
    echo: bool = True

    def resolve(self, request: ApprovalRequest) -> ApprovalResolution:
        if self.outcome == "raises":
            raise RuntimeError("secret words of a resolver")
        return ApprovalResolution(
            ApprovalOutcome(self.outcome),
            request.context_identity if self.echo else "sha256:another",
            None if self.verdict is None else Verdict.from_wire(self.verdict),
        )


@dataclasses.dataclass(frozen=True)
class Case:
    """One emission, described."""

    context: dict[str, Any]
    behaviours: tuple[Behaviour, ...]
    remote: tuple[bool, ...]
    composition: CompositionConfig
    mode: EnforcementMode
    resolution: Resolution | None
    redacts: str
    provider: str | IdentityProvider | None

    def fresh_context(self) -> dict[str, Any]:
        return copy.deepcopy(self.context)


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Return the strategies of *choices*, each as often as its weight says."""
    lots = [index for index, (weight, _) in enumerate(choices) for _ in range(weight)]
    return st.sampled_from(lots).flatmap(lambda index: choices[index][1])


_words = st.sampled_from(["a", "b", "policy:x", "ä", "🙂", "x" * 300])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, 1e21, -0.0, 2**53]) | _words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y", "é", "🙂"]), inner),
    max_leaves=4,
)
# A transform to null is read differently by the SDK, see divergences.
_replacement = _json.filter(lambda value: value is not None)
_RESOLVING = {
    "input": ["$target.content", "$policy_target.content", '$target["content"]', "$target.content.x"],
    "pre_model_call": ["$target[0].content", "$target[0]"],
    "post_model_call": ["$target.content", "$target.finish_reason", "$target.tool_calls"],
    "output": ["$target.content", "$target.content.x"],
}
_TOOL = ["$target.x", '$target["x"]', "$target.content", "$policy_target.x", "$target[0]"]
_BENT = ["$target", "$target.missing", "$other.x", "$target.", "$targets", "$target[99]", "$target.x.y.z"]


def _paths(point: str) -> st.SearchStrategy[str]:
    return weighted((8, st.sampled_from(_RESOLVING.get(point, _TOOL))), (2, st.sampled_from(_BENT)))


_warnings = st.lists(
    st.fixed_dictionaries({}, optional={"reason": st.sampled_from(["w1", "w2"]), "message": _words}), max_size=2
)
_common = {
    "reason": st.sampled_from(["r1", "r2"]),
    "message": _words,
    "warnings": _warnings,
    "result_labels": st.lists(st.sampled_from(["l1", "l2", "l3"]), max_size=2),
    "evidence": st.sampled_from([{"artefact": "urn:x"}, {"verification_pointers": {"k": "https://x"}}]),
}
_allow = st.fixed_dictionaries({"decision": st.just("allow")}, optional=_common)
_deny = st.fixed_dictionaries({"decision": st.just("deny")}, optional=_common)
_liftable = st.fixed_dictionaries(
    {"decision": st.just("deny"), "approval": st.sampled_from([{}, {"to": "a manager"}])}, optional=_common
)


def _transform(point: str) -> st.SearchStrategy[Any]:
    body = st.fixed_dictionaries({"path": _paths(point), "value": _replacement})
    return st.fixed_dictionaries({"decision": st.just("transform"), "transform": body}, optional=_common)


_malformed = st.sampled_from(
    [
        {"decision": "permit"},
        {"decision": "allow", "approval": {}},
        {"decision": "deny", "reason": "host_error:mine"},
        {"decision": "transform"},
        {"decision": "allow", "transform": {"path": "$target", "value": 1}},
        {"decision": "allow", "unknown": 1},
        {"decision": "allow", "warnings": "no"},
        {"decision": "allow", "evidence": {"artefact": "x" * 10300}},
        {},
        [],
        "allow",
        7,
        None,
    ]
)


def behaviours(point: str) -> st.SearchStrategy[Behaviour]:
    """Mostly verdicts that mean something at *point*; silence costs real time, so it is rare."""
    return weighted(
        (40, _allow),
        (8, _deny),
        (16, _liftable),
        (24, _transform(point)),
        (5, _malformed),
        (5, st.just(RAISES)),
        (2, st.just(HANGS)),
    )


compositions = st.one_of(
    st.builds(CompositionConfig.first_deny, st.sampled_from(OnApproval)),
    st.just(CompositionConfig.run_all()),
    st.builds(CompositionConfig.strictest, st.sampled_from(SynthesisPolicy)),
    st.builds(CompositionConfig.unanimous, st.sampled_from(SynthesisPolicy), st.sampled_from(SynthesisPolicy)),
)


def resolutions(point: str) -> st.SearchStrategy[Resolution | None]:
    return weighted(
        (2, st.none()),
        (8, st.builds(Resolution, st.just("approve"), st.one_of(_allow, _transform(point)))),
        (1, st.builds(Resolution, st.just("approve"), _deny)),
        (1, st.builds(Resolution, st.just("approve"), _allow, st.just(False))),
        (3, st.builds(Resolution, st.just("reject"), _deny)),
        (1, st.builds(Resolution, st.just("reject"), _allow)),
        (1, st.just(Resolution("unresolved"))),
        (1, st.just(Resolution("raises"))),
    ).filter(lambda resolution: resolution is None or _constructible(resolution.verdict))


def _constructible(wire: Any) -> bool:
    try:
        return wire is None or Verdict.from_wire(wire) is not None
    except ValueError:
        return False


def _custom(context: dict[str, Any]) -> str:
    return f"custom:{context['session']['id']}:{len(repr(context['target']))}"


def _failing(_context: dict[str, Any]) -> str:
    raise RuntimeError("secret words of a provider")


providers = weighted(
    (12, st.just("jcs-sha256")),
    (4, st.none()),
    (4, st.just(IdentityProvider("custom", _custom))),
    (1, st.just(IdentityProvider("failing", _failing))),
)


@st.composite
def contexts(draw: st.DrawFn) -> dict[str, Any]:
    """A context at any point, mostly valid; some with an envelope or a value that must be refused."""
    builder = AgentContextBuilder(
        agent_id=draw(st.sampled_from(["bot", "Bot 1"])), framework="test", session_id="s"
    )
    extra = {"trace": {"trace_id": "ab" * 16, "span_id": "cd" * 8, "vendor": "x"}} if draw(st.booleans()) else {}
    builder.with_l2(**extra)
    shaped = st.fixed_dictionaries({"x": _json, "content": _json}, optional={"y": _json})
    value = draw(weighted((6, shaped), (1, st.lists(_json, min_size=1, max_size=2)), (1, _json)))
    point = draw(st.sampled_from(POINTS + POINTS[1:7] * 2))
    made: dict[str, Any] = {
        "agent_startup": lambda: builder.agent_startup(tools_registered=["t"]),
        "input": lambda: builder.input(content=value),
        "pre_model_call": lambda: builder.pre_model_call(
            model_id="m", messages=[{"role": "user", "content": value}]
        ),
        "post_model_call": lambda: builder.post_model_call(
            model_id="m", content=value, tool_calls=[], finish_reason="stop"
        ),
        "pre_tool_call": lambda: builder.pre_tool_call(call_id="c", name="t", args=value),
        "post_tool_call": lambda: builder.post_tool_call(call_id="c", name="t", args={}, value=value),
        "output": lambda: builder.output(content=value),
        "agent_shutdown": lambda: builder.agent_shutdown(reason="completed"),
    }[point]()
    made["sequence"] = draw(st.integers(0, 2**53))
    fault = draw(st.sampled_from([None] * 40 + ["field", "point", "sequence", "framework", "session"]))
    if fault == "field":
        del made[draw(st.sampled_from([k for k in made if k != "trace"]))]
    elif fault == "point":
        made["interception_point"] = draw(st.sampled_from(["before_lunch", None, 5]))
    elif fault == "sequence":
        made["sequence"] = draw(st.sampled_from([-1, True, 1.0, "0", 2**63]))
    elif fault == "framework":
        made["agent"]["framework"] = "No Such"
    elif fault == "session":
        made["session"] = draw(st.sampled_from([{}, {"id": ""}, {"id": 5}, "s"]))
    return made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    context = draw(contexts())
    point = str(context.get("interception_point"))
    count = draw(st.sampled_from([0] + [1, 2, 2, 3, 3, 4] * 5))
    told = tuple(draw(behaviours(point)) for _ in range(count))
    return Case(
        context=context,
        behaviours=told,
        remote=tuple(draw(st.booleans()) for _ in told),
        composition=draw(compositions),
        mode=draw(st.sampled_from([EnforcementMode.ENFORCE] * 4 + [EnforcementMode.EVALUATE_ONLY])),
        resolution=draw(resolutions(point)),
        redacts=draw(st.sampled_from(["no", "no", "yes", "raises"])),
        provider=draw(providers),
    )
