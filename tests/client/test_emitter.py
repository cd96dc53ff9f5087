"""The emitter over a real bus: deadlines, budgets, concurrency, cancellation, declarations, drop-in."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import (
    AgentContextBuilder,
    ApprovalOutcome,
    ApprovalResolution,
    CompositionConfig,
    DeclarationError,
    EmitterSealed,
    EnforcementMode,
    HostError,
    HostSurface,
    InterceptionBlocked,
    InterceptionEmitter,
    InterceptionPoint,
    InterceptionRecord,
    Verdict,
)

from hookbus import Connection, codec, envelope
from hookbus_client import BusEmitter, host_registry
from tests.client.scripted import Local, until
from tests.client.workers import Workers

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0
ALLOW = b'{"decision":"allow"}'


def builder() -> AgentContextBuilder:
    return AgentContextBuilder(agent_id="bot", framework="test", session_id="s")


def tool_call(**args: Any) -> dict[str, Any]:
    return builder().pre_tool_call(call_id="c", name="t", args=args or {"x": 1})


# ---- deadlines ------------------------------------------------------------------------------------


async def test_a_silent_interceptor_denies_at_its_deadline(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy")
    emitter = BusEmitter(timeout=0.1).register(bus.interceptor("policy"))
    with pytest.raises(InterceptionBlocked) as blocked:
        await emitter.emit(tool_call())
    verdict = blocked.value.result.verdict
    assert verdict.reason == "host_error:interceptor_timeout"
    assert verdict.message == "silent: 'policy' did not answer by the deadline"
    assert bus.in_flight == 0


async def test_each_binding_has_its_own_timeout(bus: Connection, workers: Workers) -> None:
    await workers.serve("slow", "quick", answer=lambda name: ALLOW if name == "quick" else None)
    emitter = BusEmitter(timeout=PATIENCE_S, composition=CompositionConfig.strictest())
    emitter.register(bus.interceptor("quick"))
    emitter.register(bus.interceptor("slow"), timeout_s=0.1)
    record = await emitter.emit_unchecked(tool_call())
    assert [summary.reason for summary in record.verdicts] == [None, "host_error:interceptor_timeout"]


@pytest.mark.parametrize("composition", [CompositionConfig.run_all(), CompositionConfig.strictest()])
async def test_an_emission_ends_within_its_budget(
    bus: Connection, workers: Workers, composition: CompositionConfig
) -> None:
    await workers.serve("a", "b", "c")
    emitter = BusEmitter(timeout=PATIENCE_S, composition=composition, budget_s=0.2)
    for name in ("a", "b", "c"):
        emitter.register(bus.interceptor(name))
    emitter.register(Local({"decision": "allow"}), "local")
    began = time.monotonic()
    record = await emitter.emit_unchecked(tool_call())
    assert time.monotonic() - began < PATIENCE_S / 2
    assert [summary.reason for summary in record.verdicts[:3]] == ["host_error:interceptor_timeout"] * 3
    assert not record.proceeds


async def test_time_in_the_approval_seam_does_not_count_against_the_budget(
    bus: Connection, workers: Workers
) -> None:
    await workers.serve("gate", "policy", answer=lambda name: ALLOW if name == "policy" else _ESCALATE)

    class Person:
        async def resolve(self, request: Any) -> ApprovalResolution:
            end = asyncio.get_running_loop().time() + 0.3
            await until(lambda: asyncio.get_running_loop().time() >= end)
            return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, Verdict.allow())

    emitter = BusEmitter(
        timeout=PATIENCE_S,
        budget_s=0.25,
        resolver=Person(),
        composition=CompositionConfig.from_wire({"profile": "sequential/first_deny", "on_approval": "resume"}),
    )
    emitter.register(bus.interceptor("gate")).register(bus.interceptor("policy"))
    record = await emitter.emit_unchecked(tool_call())
    assert record.proceeds
    assert record.resolved_by == "approval"


_ESCALATE = b'{"decision":"deny","approval":{}}'


async def test_a_resolver_that_is_cut_off_has_failed(bus: Connection, workers: Workers) -> None:
    await workers.serve("gate", answer=lambda _name: _ESCALATE)

    class Away:
        async def resolve(self, request: Any) -> ApprovalResolution:
            await asyncio.Event().wait()
            raise AssertionError

    emitter = BusEmitter(timeout=0.1, resolver=Away())
    emitter.register(bus.interceptor("gate"), timeout_s=PATIENCE_S)
    record = await emitter.emit_unchecked(tool_call())
    assert record.verdict.reason == "host_error:approval_resolver_failed"
    assert record.decided_by == 0


async def test_no_timeout_still_has_an_end_for_a_remote_interceptor(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=None).register(bus.interceptor("policy"))
    await emitter.emit(tool_call())
    assert envelope.parse(workers.asked[0].headers).values["Hb-Budget-Ms"] == "60000"


# ---- who is asked, when, and about what ------------------------------------------------------------


@pytest.mark.parametrize("composition", [CompositionConfig.strictest(), CompositionConfig.unanimous()])
async def test_a_parallel_profile_asks_everybody_before_anybody_answers(
    bus: Connection, workers: Workers, composition: CompositionConfig
) -> None:
    await workers.serve("a", "b", "c")
    emitter = BusEmitter(timeout=PATIENCE_S, composition=composition)
    for name in ("a", "b", "c"):
        emitter.register(bus.interceptor(name))
    emission = asyncio.create_task(emitter.emit_unchecked(tool_call()))
    await until(lambda: sorted(workers.names()) == ["a", "b", "c"])
    for message in reversed(workers.asked):
        workers.connection.publish(message.reply, ALLOW)
    assert (await emission).proceeds


@pytest.mark.parametrize("composition", [CompositionConfig.first_deny(), CompositionConfig.run_all()])
async def test_a_sequential_profile_asks_the_next_one_about_what_the_last_one_left(
    bus: Connection, workers: Workers, composition: CompositionConfig
) -> None:
    await workers.serve("a", "b")
    emitter = BusEmitter(timeout=PATIENCE_S, composition=composition)
    emitter.register(bus.interceptor("a")).register(bus.interceptor("b"))
    context = tool_call(x=1, y=2)
    original = context["target"]
    emission = asyncio.create_task(emitter.emit_unchecked(context))
    await until(lambda: bool(workers.asked))
    await workers.connection.flush(timeout_s=5)
    assert workers.names() == ["a"]
    changed = {"decision": "transform", "transform": {"path": "$target.x", "value": 9}}
    workers.connection.publish(workers.asked[0].reply, json.dumps(changed).encode())
    await until(lambda: workers.names() == ["a", "b"])
    workers.connection.publish(workers.asked[1].reply, ALLOW)
    record = await emission
    assert codec.decode_context(workers.asked[1].body)["target"] == {"x": 9, "y": 2}
    assert context["target"] == context["tool_call"]["args"] == {"x": 9, "y": 2}
    assert original == {"x": 1, "y": 2}
    assert record.input_identity != record.enforced_identity


async def test_nobody_is_asked_at_a_point_that_is_not_theirs(bus: Connection, workers: Workers) -> None:
    await workers.serve("tools", "all", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=PATIENCE_S)
    emitter.register(bus.interceptor("tools"), at=["pre_tool_call"]).register(bus.interceptor("all"))
    record = (await emitter.emit(builder().input(content="x"))).record
    assert workers.names() == ["all"]
    assert record.interceptors_registered == 1


async def test_interceptors_in_process_and_remote_ones_mix(bus: Connection, workers: Workers) -> None:
    await workers.serve("remote", answer=lambda _name: ALLOW)
    local = Local({"decision": "deny", "reason": "mine"})
    emitter = BusEmitter(timeout=PATIENCE_S, composition=CompositionConfig.strictest())
    emitter.register(bus.interceptor("remote")).register(local, "local")
    context = tool_call()
    record = await emitter.emit_unchecked(context)
    assert record.decided_by == 1
    assert [summary.name for summary in record.verdicts] == ["remote", "local"]
    assert local.seen[0] == context
    assert local.seen[0]["target"] is not context["target"]


async def test_evaluate_only_asks_everybody_and_proceeds(bus: Connection, workers: Workers) -> None:
    await workers.serve("a", "b", answer=lambda _name: b'{"decision":"deny"}')
    emitter = BusEmitter(
        mode=EnforcementMode.EVALUATE_ONLY, timeout=PATIENCE_S, composition=CompositionConfig.run_all()
    )
    emitter.register(bus.interceptor("a")).register(bus.interceptor("b")).register(bus.interceptor("nobody"))
    record = (await emitter.emit(tool_call())).record
    assert sorted(workers.names()) == ["a", "b"]
    assert record.verdict.decision.value == "deny"
    assert record.proceeds


async def test_two_agents_on_one_connection_ask_in_their_own_names(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=PATIENCE_S).register(bus.interceptor("policy"))
    for agent in ("one", "Number Two"):
        await emitter.emit(AgentContextBuilder(agent_id=agent, framework="t", session_id="s").input(content="x"))
    first, second = (message.subject.split(".")[6] for message in workers.asked)
    assert first == "one"
    assert second.startswith("x-")


async def test_the_trace_of_a_context_travels_as_w3c_headers(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=PATIENCE_S).register(bus.interceptor("policy"))
    traced = builder().with_l2(trace={"trace_id": "ab" * 16, "span_id": "cd" * 8})
    await emitter.emit(traced.input(content="x"))
    assert envelope.parse(workers.asked[0].headers).values["traceparent"] == f"00-{'ab' * 16}-{'cd' * 8}-01"


async def test_an_integer_of_any_size_arrives_exactly_where_the_provider_permits_it(
    bus: Connection, workers: Workers
) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=PATIENCE_S, identity_provider=None).register(bus.interceptor("policy"))
    await emitter.emit(tool_call(big=2**80 + 1, small=-(2**63)))
    assert codec.decode_context(workers.asked[0].body)["target"] == {"big": 2**80 + 1, "small": -(2**63)}


async def test_a_context_larger_than_the_connection_carries_is_invalid_and_not_sent(
    bus: Connection, workers: Workers
) -> None:
    await workers.serve("policy", answer=lambda _name: ALLOW)
    emitter = BusEmitter(timeout=PATIENCE_S).register(bus.interceptor("policy"))
    record = await emitter.emit_unchecked(tool_call(text="x" * 2_000_000))
    assert record.verdict.reason == "host_error:context_invalid"
    assert record.input_identity is None
    assert workers.asked == []
    assert (await emitter.emit_unchecked(tool_call())).proceeds


# ---- cancellation ----------------------------------------------------------------------------------


async def test_a_cancelled_emission_leaves_a_denying_record_and_no_open_question(
    bus: Connection, workers: Workers
) -> None:
    await workers.serve("policy")
    emitter = BusEmitter(timeout=PATIENCE_S).register(bus.interceptor("policy"))
    emission = asyncio.create_task(emitter.emit_unchecked(tool_call()))
    await until(lambda: bool(workers.asked))
    emission.cancel()
    with pytest.raises(asyncio.CancelledError):
        await emission
    (record,) = emitter.results
    assert record.verdict.reason == "host_error:interceptor_failed"
    assert record.verdict.message == "CancelledError"
    assert not record.proceeds
    assert bus.in_flight == 0


# ---- drop-in ---------------------------------------------------------------------------------------


def test_every_public_method_takes_what_the_sdks_takes() -> None:
    for name, theirs in inspect.getmembers(InterceptionEmitter):
        if name.startswith("_") and name != "__init__":
            continue
        ours = getattr(BusEmitter, name)
        if callable(theirs):
            wanted = inspect.signature(theirs).parameters
            taken = inspect.signature(ours).parameters
            assert list(wanted) == [n for n in taken if n in wanted], name
            assert {n: p.default for n, p in wanted.items()} == {n: taken[n].default for n in wanted}, name


async def test_records_go_to_the_sink_and_the_bounded_buffer() -> None:
    told: list[InterceptionRecord] = []
    emitter = BusEmitter().register(Local({"decision": "allow"}))
    emitter.set_record_sink(told.append).set_max_records(2)
    for _ in range(3):
        await emitter.emit(tool_call())
    assert len(told) == 3
    assert len(emitter.take_records()) == 2
    assert emitter.records_dropped == 1
    assert emitter.results == []


async def test_a_sink_that_raises_changes_nothing() -> None:
    def sink(_record: InterceptionRecord) -> None:
        raise RuntimeError

    emitter = BusEmitter().register(Local({"decision": "allow"}))
    emitter.set_record_sink(sink)
    assert (await emitter.emit(tool_call())).record.proceeds


async def test_a_host_failure_has_its_record() -> None:
    emitter = BusEmitter().register(Local({"decision": "allow"}))
    record = emitter.record_host_failure(InterceptionPoint.PRE_TOOL_CALL, "TypeError", session_id="s", sequence=4)
    assert (record.verdict.reason, record.sequence) == ("host_error:context_invalid", 4)
    assert emitter.results == [record]


async def test_what_the_host_denies_by_itself_has_its_record() -> None:
    emitter = BusEmitter().register(Local({"decision": "allow"}))
    context = builder().post_model_call(
        model_id="m", content="tail", tool_calls=[], finish_reason="stream_incomplete"
    )
    record = emitter.record_host_denial(context, HostError.STREAMING_UNSUPPORTED)
    assert record.verdict.reason == "host_error:streaming_unsupported"
    assert record.input_identity == record.enforced_identity is not None
    assert emitter.results == [record]


async def test_an_emitter_with_nobody_registered_denies() -> None:
    record = await BusEmitter().emit_unchecked(tool_call())
    assert record.verdict.reason == "host_error:no_interceptor"


async def test_a_remote_interceptor_serves_the_sdks_own_emitter_too(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", answer=lambda _name: b'{"decision":"deny","reason":"because"}')
    emitter = InterceptionEmitter()
    emitter.register(bus.interceptor("policy")).register(bus.interceptor("nobody"))
    record = await emitter.emit_unchecked(tool_call())
    assert record.verdict.reason == "because"
    emitter = InterceptionEmitter().register(bus.interceptor("nobody"))
    record = await emitter.emit_unchecked(tool_call())
    assert (record.verdict.reason, record.verdict.message) == ("host_error:interceptor_failed", "QuestionFailed")


# ---- declarations ----------------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "declaration": "agent-hooks-declaration/1.0",
        "configuration": {
            "composition": {"profile": "parallel/strictest"},
            "timeouts": {"interceptor_ms": 20_000},
        },
        "bindings": [
            {"id": "policy", "kind": "hookbus.remote", "config": {"interceptor": "policy"}},
            {
                "id": "redactor",
                "kind": "hookbus.remote",
                "config": {"interceptor": "redactor"},
                "at": ["input"],
                "timeout_ms": 100,
            },
        ],
    }
    return {**made, **changes}


async def test_a_declaration_loads_as_it_is(bus: Connection, workers: Workers, tmp_path: Path) -> None:
    await workers.serve("policy", "redactor", answer=lambda name: ALLOW if name == "policy" else None)
    path = tmp_path / "host.json"
    path.write_text(json.dumps(document()))
    emitter = BusEmitter.from_declaration_path(path, host_registry(bus))
    assert isinstance(emitter, BusEmitter)
    record = await emitter.emit_unchecked(builder().input(content="x"))
    assert record.declaration == "agent-hooks-declaration/1.0"
    assert [(s.name, s.reason) for s in record.verdicts] == [
        ("policy", None),
        ("redactor", "host_error:interceptor_timeout"),
    ]
    assert (await emitter.emit_unchecked(builder().output(content="x"))).proceeds


async def test_a_declared_emitter_is_sealed(bus: Connection) -> None:
    emitter = BusEmitter.from_declaration_value(document(), host_registry(bus))
    with pytest.raises(EmitterSealed):
        emitter.register(bus.interceptor("policy"))
    with pytest.raises(EmitterSealed):
        emitter.set_composition(CompositionConfig.run_all())


@pytest.mark.parametrize("config", [{}, {"interceptor": ""}, {"interceptor": 5}, {"interceptor": "p", "more": 1}])
async def test_a_binding_that_names_nobody_is_refused(bus: Connection, config: dict[str, Any]) -> None:
    bindings = [{"id": "policy", "kind": "hookbus.remote", "config": config}]
    with pytest.raises(DeclarationError, match="binding_rejected"):
        BusEmitter.from_declaration_value(document(bindings=bindings), host_registry(bus))


async def test_a_declaration_may_set_the_budget_of_an_emission(bus: Connection, workers: Workers) -> None:
    await workers.serve("policy", "redactor")
    declared = document(extensions={"hookbus": {"emission_budget_ms": 150}})
    emitter = BusEmitter.from_declaration_value(declared, host_registry(bus))
    record = await emitter.emit_unchecked(builder().output(content="x"))
    assert record.verdict.reason == "host_error:interceptor_timeout"
    assert int(envelope.parse(workers.asked[0].headers).values["Hb-Budget-Ms"]) <= 150


@pytest.mark.parametrize("extension", [{"emission_budget_ms": 0}, {"emission_budget_ms": "1"}, {"unknown": 1}, 5])
async def test_an_extension_that_is_not_understood_is_refused(bus: Connection, extension: Any) -> None:
    with pytest.raises(DeclarationError, match="invalid_field"):
        BusEmitter.from_declaration_value(document(extensions={"hookbus": extension}), host_registry(bus))


async def test_a_host_keeps_its_own_surface(bus: Connection) -> None:
    surface = HostSurface.from_capabilities(["model_calls", "tool_calls", "host_declaration"])
    declared = document(bindings=[{"id": "p", "kind": "hookbus.remote", "config": {"interceptor": "p"}}])
    emitter = BusEmitter.from_declaration_value(declared, host_registry(bus, surface))
    record = await emitter.emit_unchecked(tool_call())
    assert record.verdict.message == "absent: no worker of 'p' is subscribed"
