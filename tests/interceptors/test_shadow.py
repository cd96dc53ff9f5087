"""Shadow and canary without a bus: what the candidate can do to the decision, and what is counted of it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import hookbus
from hookbus_interceptors.authoring.testing import Answer, AsyncTestClient, TestClient
from hookbus_interceptors.configuration import ConfigurationInvalid
from hookbus_interceptors.errors import NotAsked
from hookbus_interceptors.service import MAX_OFFERED_BYTES
from hookbus_interceptors.shadow import (
    CandidateBusy,
    CandidateKeepsCount,
    CandidateMissesPoint,
    CandidateNotOpen,
    CandidateTimedOut,
    Shadow,
    ShadowConfiguration,
)
from hookbus_interceptors.shadow.comparison import Ending
from hookbus_interceptors.shadow.counts import MAX_KINDS, MAX_PHASES, Counts, Phase, PhaseCounts
from hookbus_interceptors.shadow.sessions import is_chosen, place_of
from tests.interceptors import shadow_sides
from tests.worker.asking import eventually

pytestmark = pytest.mark.anyio

SIDES = "tests.interceptors.shadow_sides"
KINDS = ("", "_async", "_later")


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    shadow_sides.RELEASED.clear()
    yield
    shadow_sides.RELEASED.set()


def trial(current: str = "current", candidate: str = "candidate", **more: Any) -> Shadow:
    sides = {
        side: {"target": f"{SIDES}:{name}"} for side, name in (("current", current), ("candidate", candidate))
    }
    return Shadow(ShadowConfiguration.model_validate({"share": 1, "timeout_s": 30, **sides, **more}))


async def ask(shadow: object, current: str = "allow", candidate: str = "allow", **more: Any) -> Answer:
    args = {"current": current, "candidate": candidate, "text": "payload"}
    return await AsyncTestClient(shadow, timeout_s=30).pre_tool_call("book", args, **more)


def counted(shadow: Any) -> dict[str, int]:
    """What was counted in the latest phase, but for who decided."""
    phases: list[PhaseCounts] = shadow.service_stats(None)["shadow"]
    return {what: count for what, count in phases[-1].counts.items() if "decided" not in what} if phases else {}


async def counted_at_last(shadow: Any, **expected: int) -> None:
    async def is_so() -> bool:
        return counted(shadow) == expected

    try:
        await eventually(is_so)
    except TimeoutError:
        assert counted(shadow) == expected


# ---- the decision in shadow ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trials() -> dict[tuple[str, str], Shadow]:
    more = {"concurrency": 4, "timeout_s": 0.05}
    return {(a, b): trial(f"current{a}", f"candidate{b}", **more) for a in KINDS for b in KINDS}


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    current=st.sampled_from(shadow_sides.PROMPT),
    candidate=st.sampled_from(shadow_sides.ALL),
)
def test_in_shadow_the_answer_is_the_current_ones_whatever_the_candidate_does(
    trials: dict[tuple[str, str], Shadow], kinds: tuple[str, str], current: str, candidate: str
) -> None:
    args = {"current": current, "candidate": candidate, "text": "payload"}
    alone = TestClient(getattr(shadow_sides, f"current{kinds[0]}")).pre_tool_call("book", args)
    shadow_sides.RELEASED.clear()
    beside = TestClient(trials[kinds]).pre_tool_call("book", args)
    # The next candidate finds its places free.
    shadow_sides.RELEASED.set()
    assert (beside.verdict, beside.target, type(beside.error)) == (alone.verdict, alone.target, type(alone.error))
    expected = "another" if current == "decided by another" else f"{SIDES}:current{kinds[0]}"
    assert beside.policy_version == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("current", "candidate", "what"),
    [
        ("allow", "allow as a dict", "agreed"),
        ("allow as another object", "allow", "agreed"),
        ("spoil", "allow", "agreed"),
        ("allow", "spoil", "agreed"),
        ("allow", "deny", "disagreed"),
        ("allow", "raise", "raised"),
        ("allow", "exit", "raised"),
        ("raise", "raise", "raised"),
        ("raise", "allow", "disagreed"),
        ("allow", "cancel", "timed_out"),
        ("allow", "nothing", "invalid"),
        ("allow", "nonsense", "invalid"),
        ("allow", "no json", "raised"),
        ("allow", "to_wire raises", "raised"),
    ],
)
async def test_what_the_candidate_comes_to_is_counted(kind: str, current: str, candidate: str, what: str) -> None:
    shadow = trial(f"current{kind}", f"candidate{kind}")
    await ask(shadow, current, candidate)
    await counted_at_last(shadow, **{what: 1})


@pytest.mark.parametrize(
    ("candidate", "differs", "said"),
    [
        ("deny", "decision", ("deny", "side:no")),
        ("escalate", "decision", ("escalate", "side:no")),
        ("replace", "decision", ("transform", None)),
        ("label", "labels", ("allow", None)),
        ("raise", "decision", ("raised", "FaultOfIts")),
        ("hang", "decision", ("timed_out", None)),
        ("nothing", "decision", ("invalid", None)),
        ("deny with the payload", "decision", ("deny", "(no token)")),
    ],
)
async def test_a_disagreement_is_kept_with_what_each_said(
    candidate: str, differs: str, said: tuple[str, str | None]
) -> None:
    shadow = trial(candidate="candidate_async", timeout_s=0.05 if candidate == "hang" else 30)
    for _ in range(3):
        await ask(shadow, "allow", candidate, session="secret-session")

    async def compared() -> bool:
        return sum(counted(shadow).values()) == 3

    await eventually(compared)
    shown = shadow.service_stats("pre_tool_call")["shadow"]
    assert isinstance(shown, list)
    (one,) = shown[-1].disagreements
    assert (one.point, one.differs, one.count) == ("pre_tool_call", differs, 3)
    assert (one.current.decision, one.current.reason) == ("allow", None)
    assert (one.candidate.decision, one.candidate.reason) == said
    assert (shown[-1].phase.current, shown[-1].phase.candidate) == (f"{SIDES}:current", f"{SIDES}:candidate_async")
    assert "secret-session" not in repr(shown)


@pytest.mark.parametrize(
    ("current", "candidate", "differs"),
    [("deny", "deny otherwise", "reason"), ("replace", "replace otherwise", "transform")],
)
async def test_answers_with_the_same_decision_are_told_apart(current: str, candidate: str, differs: str) -> None:
    shadow = trial()
    await ask(shadow, current, candidate)
    await counted_at_last(shadow, disagreed=1)
    shown = shadow.service_stats(None)["shadow"]
    assert isinstance(shown, list)
    assert [one.differs for one in shown[-1].disagreements] == [differs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["hang", "hold the loop"])
async def test_a_candidate_that_hangs_holds_its_own_places_and_nothing_else(kind: str, how: str) -> None:
    shadow = trial(f"current{kind}", f"candidate{kind}", concurrency=2, timeout_s=30)
    async with asyncio.timeout(20):
        for _ in range(5):
            assert (await ask(shadow, "deny", how)).reason == "side:no"
    assert counted(shadow) == {"skipped": 3}


@pytest.mark.parametrize("how", ["hang", "hold the loop"])
async def test_a_candidate_out_of_time_is_counted_and_its_place_free_when_it_has_ended(how: str) -> None:
    shadow = trial(candidate="candidate", concurrency=1, timeout_s=0.05)
    await ask(shadow, "allow", how)
    await counted_at_last(shadow, timed_out=1)
    await ask(shadow)
    await counted_at_last(shadow, timed_out=1, skipped=1)
    shadow_sides.RELEASED.set()

    async def is_free() -> bool:
        await ask(shadow)
        return counted(shadow).get("agreed", 0) > 0

    await eventually(is_free)


async def test_a_coroutine_out_of_time_is_cancelled_and_its_place_free() -> None:
    shadow = trial(candidate="candidate_async", concurrency=1, timeout_s=0.05)
    await ask(shadow, "allow", "hang")
    await counted_at_last(shadow, timed_out=1)

    async def is_free() -> bool:
        await ask(shadow)
        return counted(shadow).get("agreed", 0) > 0

    await eventually(is_free)


async def test_the_candidate_never_runs_in_the_thread_or_on_the_loop_of_the_current_one() -> None:
    # Were it so, this would never return: the one lets the other go on.
    shadow = trial("current_async", "candidate_async")
    await ask(shadow, "allow", "hold the loop")
    assert counted(shadow) == {}
    shadow_sides.RELEASED.set()
    await counted_at_last(shadow, agreed=1)


async def test_a_candidate_that_ends_its_own_loop_is_asked_no_more_and_touches_no_answer() -> None:
    shadow = trial("current_async", "candidate_async")
    assert (await ask(shadow, "deny", "end the loop")).reason == "side:no"

    async def is_skipped() -> bool:
        assert (await ask(shadow, "deny")).reason == "side:no"
        return counted(shadow).get("skipped", 0) > 0

    await eventually(is_skipped)
    canary = trial("current_async", "candidate_async", stage="canary")
    client = AsyncTestClient(canary, timeout_s=0.5)
    args = {"current": "allow", "candidate": "end the loop"}
    answers = [await client.pre_tool_call("book", args) for _ in range(2)]
    assert not answers[1].permits


async def test_a_point_at_which_the_candidate_does_not_answer_is_never_an_allow() -> None:
    shadow = trial("Everywhere", "RefuseWords")
    assert (await AsyncTestClient(shadow).output("x")).permits
    await counted_at_last(shadow, raised=1)
    canary = trial("Everywhere", "RefuseWords", stage="canary")
    assert canary.points == {"output", "pre_tool_call"}
    answer = await AsyncTestClient(canary).output("x")
    assert not answer.permits
    assert isinstance(answer.error, CandidateMissesPoint)
    assert (await AsyncTestClient(canary).pre_tool_call("book")).permits


@pytest.mark.parametrize("value", [10**40, -(2**63), 1.5e300, {"𝄞": "\x00"}, [[[[None]]]], "\ufeff\ud7ff"])
async def test_every_context_that_comes_in_reaches_the_candidate_as_it_is(value: Any) -> None:
    shadow = trial("Target", "Target")
    seen = await AsyncTestClient(shadow).pre_tool_call("book", {"value": value})
    await counted_at_last(shadow, agreed=1)
    assert seen.labels == (repr({"value": value}),)


async def test_sessions_that_are_not_chosen_are_not_tried() -> None:
    shadow = trial(share=0)
    assert (await ask(shadow, "deny", "hang")).reason == "side:no"
    (phase,) = shadow.service_stats(None)["shadow"]  # type: ignore[attr-defined]
    assert phase.counts == {"decided_by_current": 1}


def test_outside_a_question_it_raises() -> None:
    with pytest.raises(NotAsked):
        trial().intercept({"agent": {"id": "a"}, "session": {"id": "s"}})


# ---- which sessions ------------------------------------------------------------------------------------

IDS = st.text(max_size=20)


def asked(tenant: str | None, agent: str, session: str) -> dict[str, Any]:
    context: dict[str, Any] = {"agent": {"id": agent}, "session": {"id": session}}
    return context if tenant is None else {**context, "tenant": {"id": tenant}}


@given(st.none() | IDS, IDS, IDS, IDS, st.floats(0, 1), st.floats(0, 1))
def test_a_session_that_is_in_a_share_is_in_every_larger_one(
    tenant: str | None, agent: str, session: str, salt: str, one: float, other: float
) -> None:
    context = asked(tenant, agent, session)
    small, large = sorted((one, other))
    assert is_chosen(context, small, salt) <= is_chosen(context, large, salt)
    assert not is_chosen(context, 0.0, salt)
    assert is_chosen(context, 1.0, salt)


@given(st.none() | IDS, IDS, IDS, IDS, st.floats(0, 1), st.text())
def test_nothing_but_tenant_agent_session_and_salt_moves_a_session(
    tenant: str | None, agent: str, session: str, salt: str, share: float, other: str
) -> None:
    context = asked(tenant, agent, session)
    more = {"session": {"id": session, "turn": 7}, "target": other, "timestamp": other, "actor": {"id": other}}
    assert is_chosen(context, share, salt) == is_chosen({**context, **more}, share, salt)


def test_a_session_stands_at_the_same_place_in_every_process_and_version() -> None:
    assert place_of("salt", None, "agent", "session") == 0.28600461222056117
    assert len({place_of(*ids) for ids in (("a", "b", "c", "d"), ("ab", "", "c", "d"), ("a", "b", "cd", ""))}) == 3


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("salt", ["", "another"])
def test_a_share_is_near_what_was_asked_for(share: float, salt: str) -> None:
    sessions = 20_000
    chosen = sum(is_chosen(asked("t", f"agent-{n % 7}", f"session-{n}"), share, salt) for n in range(sessions))
    # Four standard deviations of a binomial count.
    assert abs(chosen - sessions * share) <= 4 * math.sqrt(sessions * share * (1 - share))


@pytest.mark.parametrize("block", ["agent", "session"])
@pytest.mark.parametrize("value", [None, 5, {}, {"id": None}, {"id": 7}])
def test_a_question_that_names_no_session_is_the_current_ones(block: str, value: Any) -> None:
    assert not is_chosen({**asked("t", "a", "s"), block: value}, 1.0, "")


# ---- canary, and all -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_in_canary_the_candidate_decides_for_its_share_and_for_no_other_session(kind: str) -> None:
    shadow = trial(f"current{kind}", "candidate_versioned", stage="canary", share=0.3)
    for number in range(40):
        session = f"session-{number}"
        chosen = is_chosen(asked(None, "test-agent", session), 0.3, "")
        answer = await ask(shadow, "deny", "deny otherwise", session=session)
        assert answer.reason == ("side:otherwise" if chosen else "side:no")
        assert answer.policy_version == ("7" if chosen else f"{SIDES}:current{kind}")
    (phase,) = shadow.service_stats(None)["shadow"]  # type: ignore[attr-defined]
    assert 0 < phase.counts["decided_by_candidate"] < 40
    assert sum(phase.counts.values()) == 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", sorted(set(shadow_sides.PROMPT) - {"decided by another"}))
async def test_where_the_candidate_decides_the_answer_is_what_it_would_be_by_itself(kind: str, how: str) -> None:
    alone = await ask(getattr(shadow_sides, f"candidate{kind}"), "deny", how)
    shadow = trial(candidate=f"candidate{kind}", stage="all", share=0)
    deciding = await ask(shadow, "deny", how)
    assert (deciding.verdict, deciding.target) == (alone.verdict, alone.target)
    assert type(deciding.error) is type(alone.error)
    assert deciding.policy_version == f"{SIDES}:candidate{kind}"


async def test_a_candidate_that_says_which_version_decided_is_believed() -> None:
    assert (await ask(trial(stage="all"), candidate="decided by another")).policy_version == "another"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["hang", "hold the loop"])
async def test_a_candidate_that_hangs_where_it_decides_denies(kind: str, how: str) -> None:
    shadow = trial(candidate=f"candidate{kind}", stage="canary", concurrency=1, timeout_s=0.2)
    client = AsyncTestClient(shadow, timeout_s=1.0)
    args = {"current": "allow", "candidate": how, "text": ""}
    first = await client.pre_tool_call("book", args)
    assert not first.permits
    assert first.error is None or isinstance(first.error, CandidateTimedOut)
    if how == "hold the loop":
        second = await client.pre_tool_call("book", args)
        assert not second.permits
        assert isinstance(second.error, CandidateBusy)


# ---- what holds something ------------------------------------------------------------------------------


async def test_a_lifespan_and_the_calls_are_on_one_loop_in_shadow_and_where_the_candidate_decides() -> None:
    for stage in ("shadow", "all"):
        shadow = trial(candidate="Holding", stage=stage)
        if stage == "shadow":
            await ask(shadow)
            assert counted(shadow) == {"skipped": 1}
        else:
            assert isinstance((await ask(shadow)).error, CandidateNotOpen)
        async with shadow.lifespan(hookbus.connect("nats://127.0.0.1:1")):
            answer = await ask(shadow, "allow")
            if stage == "shadow":
                await counted_at_last(shadow, skipped=1, disagreed=1)
                shown = shadow.service_stats(None)["shadow"]
                assert isinstance(shown, list)
                assert shown[-1].disagreements[0].candidate.reason == "held:same"
            else:
                assert answer.reason == "held:same"


async def test_a_lifespan_that_raises_costs_a_shadow_nothing_and_keeps_any_other_stage_from_starting() -> None:
    bus = hookbus.connect("nats://127.0.0.1:1")
    shadow = trial(candidate="HoldingNothing")
    async with shadow.lifespan(bus):
        assert (await ask(shadow, "allow")).permits
        assert counted(shadow) == {"skipped": 1}
    canary = trial(candidate="HoldingNothing", stage="canary")
    with pytest.raises(CandidateNotOpen):
        await canary.lifespan(bus).__aenter__()


@pytest.mark.parametrize(
    ("target", "configuration"),
    [
        ("hookbus_interceptors.budget:Budget", {"limits": [{"per": ["session"], "tool_calls": 1}]}),
        (
            "hookbus_interceptors.rate_limit:RateLimit",
            {"rules": [{"name": "a", "key": ["session"], "rates": [{"calls": 1, "within_s": 1}]}]},
        ),
    ],
)
def test_a_candidate_that_counts_questions_is_refused_in_every_stage(
    target: str, configuration: dict[str, Any]
) -> None:
    for stage in ("shadow", "canary", "all"):
        with pytest.raises(CandidateKeepsCount):
            Shadow(
                ShadowConfiguration.model_validate(
                    {
                        "stage": stage,
                        "current": {"target": f"{SIDES}:current"},
                        "candidate": {"target": target, "configuration": configuration},
                    }
                )
            )


def test_a_trial_that_is_gone_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    shadow = trial()
    (own,) = set(threading.enumerate()) - before
    del shadow
    own.join(timeout=20)
    assert not own.is_alive()


# ---- the file ------------------------------------------------------------------------------------------


def write(path: Path, *, stage: str = "shadow", share: float = 1, tools: str = "drop", version: str = "2") -> None:
    path.write_text(
        f'version = "1"\nstage = "{stage}"\nshare = {share}\n'
        f'[current]\ntarget = "{SIDES}:RefuseWords"\n[current.configuration]\nversion = "1"\n'
        f'[candidate]\ntarget = "{SIDES}:RefuseWords"\n'
        f'[candidate.configuration]\nversion = "{version}"\ntools = ["{tools}"]\nlisted = "listed.txt"\n'
    )


async def test_every_stage_is_reached_by_a_reload_and_every_phase_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    (tmp_path / "listed.txt").write_text("erase")
    write(path)
    shadow = Shadow.from_config(path)
    client = AsyncTestClient(shadow)
    assert shadow.points == {"pre_tool_call"}

    async def drop() -> tuple[str | None, str]:
        answer = await client.pre_tool_call("drop")
        return answer.reason, (answer.policy_version or "").partition("+")[0]

    assert await drop() == (None, "1")
    await counted_at_last(shadow, disagreed=1)
    for stage, share, expected in (
        ("shadow", 0, (None, "1")),
        ("canary", 1, ("refused:2", "2")),
        ("canary", 0, (None, "1")),
        ("all", 0, ("refused:2", "2")),
        ("shadow", 1, (None, "1")),
    ):
        write(path, stage=stage, share=share)
        assert shadow.reload()
        assert shadow.problem is None
        assert await drop() == expected
    # The first phase is the last one again.
    await counted_at_last(shadow, disagreed=2)
    # A file that a side's own settings name is watched, too.
    (tmp_path / "listed.txt").write_text("nothing")
    assert shadow.reload()


async def test_the_candidate_is_the_same_object_as_long_as_its_settings_are(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    (tmp_path / "listed.txt").write_text("")
    write(path)
    shadow = Shadow.from_config(path)
    first = shadow.current._candidate
    write(path, stage="canary")
    shadow.reload()
    assert shadow.current._candidate is first
    write(path, stage="canary", tools="other")
    shadow.reload()
    assert shadow.current._candidate is not first


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"stage": "half"}, "stage"),
        ({"share": 1.5}, "share"),
        ({"share": math.nan}, "share"),
        ({"concurrency": 0}, "concurrency"),
        ({"candidate": {"target": "nowhere:to_be_found"}}, "cannot be imported|can be imported"),
        ({"candidate": {"target": f"{SIDES}:candidate", "configuration": {}}}, "takes no settings"),
        ({"candidate": {"target": f"{SIDES}:RefuseWords", "configuration": {"tools": 5}}}, "tools"),
        ({"candidate": {"target": f"{SIDES}:RefuseWords", "configuration": {"secret": "hunter2"}}}, "secret"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_without_their_values(wrong: dict[str, Any], why: str) -> None:
    sides = {"current": {"target": f"{SIDES}:current"}, "candidate": {"target": f"{SIDES}:candidate"}}
    with pytest.raises(ValidationError, match=why):
        ShadowConfiguration.model_validate({**sides, **wrong})


def test_a_wrong_setting_of_a_side_is_named_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    write(path)
    with pytest.raises(ConfigurationInvalid, match=r"candidate\.configuration: listed: names a file") as raised:
        Shadow.from_config(path)
    assert "listed.txt" not in str(raised.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("as_function", "current_async"),
        ("RefuseWords", "Everywhere"),
        ("RefuseWords", "current"),
        ("as_function", "Held"),
    ],
)
async def test_a_reload_that_would_need_a_restart_is_refused(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "trial.toml"

    def put(current: str) -> None:
        sides = {"current": current, "candidate": "candidate"}
        path.write_text("\n".join(f'[{side}]\ntarget = "{SIDES}:{name}"' for side, name in sides.items()))

    put(before)
    shadow = Shadow.from_config(path)
    put(after)
    assert not shadow.reload()
    assert "restart" in (shadow.problem or "")


# ---- bounds --------------------------------------------------------------------------------------------


def test_what_is_kept_is_bounded_whatever_is_answered() -> None:
    counts = Counts()
    phases = [Phase("shadow", number / 100, "1", "2") for number in range(MAX_PHASES + 3)]
    for phase in phases:
        for number in range(MAX_KINDS + 5):
            for _ in range(2):
                counts.compare(phase, "input", Ending("allow"), Ending("deny", f"reason-{number:0>80}"))
    shown = counts.shown()
    assert [one.phase for one in shown] == phases[-MAX_PHASES:]
    for one in shown:
        assert len(one.disagreements) == MAX_KINDS
        assert one.counts == {"disagreed": 2 * (MAX_KINDS + 5)}
        assert one.others == 10
    assert counts.shown("output")[0].others == 0


def test_what_is_kept_at_most_fits_into_the_statistics_of_a_worker() -> None:
    counts = Counts()
    version, reason = "v" * 80, "r" * 96
    for share in range(MAX_PHASES):
        for number in range(MAX_KINDS):
            answers = Ending("transform", reason), Ending("timed_out", f"{number:0>96}")
            counts.compare(Phase("shadow", share / 7, version, version), "post_model_call", *answers)
    assert len(msgspec.json.encode({"shadow": counts.shown("post_model_call")})) < MAX_OFFERED_BYTES
