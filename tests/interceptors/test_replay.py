"""Replaying over a real server: every flip is told, nothing of a context is, and nothing live is touched."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import click.testing
import pytest
from agent_hooks import InterceptionPoint
from typer.testing import CliRunner

import hookbus
from hookbus import Failure, QuestionFailed
from hookbus.authority.roles import Role
from hookbus.codec import Json
from hookbus.context import outgoing, prepare
from hookbus.questions import Answer, Judgement
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker, question
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.capture import Capture, CaptureConfiguration
from hookbus_interceptors.capture.reading import Captured
from hookbus_interceptors.capture.segment import SegmentWriter, make_folder
from hookbus_interceptors.fleet.plan import FleetPlan
from hookbus_interceptors.replay.asking import Compared, Replay, Terms
from hookbus_interceptors.replay.cli import app
from hookbus_interceptors.replay.outcome import UNTOLD, Change, Outcome, change, of_body, of_failure
from hookbus_interceptors.replay.report import Report
from hookbus_interceptors.replay.sessions import Selection, Sessions
from tests.authority.deployment import Deployment
from tests.interceptors.capturing import NOON, PRIVATE_KEY, PRIVATE_PEM, PUBLIC_PEM, capture, segments
from tests.interceptors.replayed import After, Before
from tests.worker import asking
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = pytest.mark.anyio

SECRET = "the-password-is-swordfish"
Context = dict[str, Any]


def allow(_context: Context) -> Context:
    return {"decision": "allow"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What one session asked: an input, two calls that decide the flips, and an output."""
    client = TestClient(capture(tmp_path / "kept"))
    client.input(SECRET)
    client.pre_tool_call("drop", {"text": SECRET})
    client.pre_tool_call("pay", {"text": SECRET})
    client.pre_tool_call("look", {"text": SECRET})
    client.output({"content": SECRET})
    return tmp_path / "kept"


def captured_by_hand(folder: Path, *contexts: Context, question_ids: list[str] | None = None) -> Captured:
    """A folder with exactly *contexts* in it, in this order."""
    make_folder(folder)
    writer = SegmentWriter(folder, PRIVATE_KEY.public_key(), NOON)
    ids = question_ids or [f"q{number}" for number in range(len(contexts))]
    records = [
        {"at_ms": number, "question": each, "context": context}
        for number, (each, context) in enumerate(zip(ids, contexts, strict=True))
    ]
    writer.append([json.dumps(record).encode() for record in records])
    writer.end()
    return Captured(folder, PRIVATE_KEY)


def call(tool: str = "pay", *, session: str = "s", sequence: int = 0, **more: Any) -> Context:
    made = asking.context({"id": "call", "name": tool, "args": {}}, **more)
    return {**made, "session": {**made["session"], "id": session}, "sequence": sequence}


@asynccontextmanager
async def serving(url: str, **interceptors: object) -> AsyncIterator[hookbus.Connection]:
    """A connection to a tenant of its own, on which *interceptors* answer under their names."""
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(hookbus.connect(url, tenant=f"t{uuid4().hex}"))
        for name, interceptor in interceptors.items():
            await stack.enter_async_context(Worker(bus, interceptor, name=name))
        yield bus


async def replayed(
    bus: hookbus.Connection, captured: Captured, selection: Selection | None = None, **terms: Any
) -> tuple[list[Compared], Report]:
    """What came of replaying *captured* to ``before`` and ``after``."""
    its_terms = Terms(**{"current": "before", "candidate": "after", **terms})
    sessions = Sessions(captured, selection or Selection())
    report, compared = Report(its_terms, captured.findings, sessions.repeated), list[Compared]()

    def note(each: Compared) -> None:
        compared.append(each)
        report.add(each)

    await Replay(bus, captured, its_terms).run(sessions, note)
    return compared, report


# ---- flips -------------------------------------------------------------------------------------------


async def test_every_flip_is_told_by_its_record_in_both_directions(
    folder: Path, shared_server: EmbeddedServer
) -> None:
    captured = Captured(folder, PRIVATE_KEY)
    async with serving(shared_server.url, before=Before(), after=After()) as bus:
        compared, report = await replayed(bus, captured)
    assert [(each.tool, each.change) for each in compared] == [
        ("", None),
        ("drop", Change.TO_ALLOW),
        ("pay", Change.TO_DENY),
        ("look", None),
        ("", Change.PERMITTED_OTHERWISE),
    ]
    for each in compared:
        found = captured.find(each.record).context
        assert found["interception_point"] == each.point
        assert found.get("tool_call", {"name": ""})["name"] == each.tool
    assert not report.passes(allow_flips=False)
    assert report.passes(allow_flips=True)


async def test_two_of_the_same_policy_do_not_differ(folder: Path, shared_server: EmbeddedServer) -> None:
    async with serving(shared_server.url, before=Before(), after=Before()) as bus:
        compared, report = await replayed(bus, Captured(folder, PRIVATE_KEY))
    assert len(compared) == 5
    assert report.differences == []
    assert report.passes(allow_flips=False)


async def test_a_candidate_that_raises_would_have_denied(tmp_path: Path, shared_server: EmbeddedServer) -> None:
    def breaks(_context: Context) -> Context:
        raise RuntimeError(SECRET)

    captured = captured_by_hand(tmp_path / "kept", call())
    async with serving(shared_server.url, before=allow, after=breaks) as bus:
        [compared], _ = await replayed(bus, captured)
    assert compared.change is Change.TO_DENY
    assert compared.candidate.shown() == "deny host_error:interceptor_failed"


async def test_a_candidate_that_is_silent_is_no_flip_and_never_passes(
    tmp_path: Path, shared_server: EmbeddedServer
) -> None:
    async def hangs(_context: Context) -> Context:
        await asyncio.Event().wait()
        return {}

    captured = captured_by_hand(tmp_path / "kept", call())
    async with serving(shared_server.url, before=allow, after=hangs) as bus:
        [compared], report = await replayed(bus, captured, timeout_s=0.1)
    assert compared.change is Change.UNANSWERED
    assert compared.candidate.decision in ("silent", "expired")
    assert not report.passes(allow_flips=True)


async def test_a_candidate_that_is_absent_at_every_point_fails_the_replay(
    tmp_path: Path, shared_server: EmbeddedServer
) -> None:
    captured = captured_by_hand(tmp_path / "kept", *(call(session=str(n)) for n in range(50)))
    async with serving(shared_server.url, before=allow) as bus:
        with pytest.raises(QuestionFailed) as failed:
            await replayed(bus, captured)
    assert (failed.value.failure, failed.value.interceptor) == (Failure.ABSENT, "after")


@pytest.mark.parametrize(("point", "differs"), [("output", Change.UNANSWERED), ("agent_startup", None)])
async def test_a_point_that_only_one_serves_is_no_flip_and_never_passes(
    tmp_path: Path, shared_server: EmbeddedServer, point: str, differs: Change | None
) -> None:
    only_calls = After()
    only_calls.points = frozenset({InterceptionPoint.PRE_TOOL_CALL})
    there = {**call(session="other"), "interception_point": point}
    captured = captured_by_hand(tmp_path / "kept", call("look"), there, there)
    async with serving(shared_server.url, before=Before(), after=only_calls) as bus:
        compared, report = await replayed(bus, captured)
    assert {each.change for each in compared if each.point == point} == {differs}
    assert report.unserved == (2 if differs is None else 0)
    assert report.passes(allow_flips=True) is (differs is None)


async def test_a_replay_of_nothing_does_not_pass(folder: Path, shared_server: EmbeddedServer) -> None:
    async with serving(shared_server.url, before=allow, after=allow) as bus:
        compared, report = await replayed(bus, Captured(folder, PRIVATE_KEY), Selection(share=0))
    assert compared == []
    assert not report.passes(allow_flips=True)


async def test_a_folder_that_was_tampered_with_does_not_pass(folder: Path, shared_server: EmbeddedServer) -> None:
    (path,) = segments(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    async with serving(shared_server.url, before=allow, after=allow) as bus:
        _, report = await replayed(bus, Captured(folder, PRIVATE_KEY))
    assert not report.passes(allow_flips=True)


# ---- which, and in which order -----------------------------------------------------------------------


async def test_each_session_is_asked_by_its_sequence_one_question_after_the_other(
    tmp_path: Path, shared_server: EmbeddedServer
) -> None:
    came: dict[str, list[int]] = {}
    running: set[str] = set()

    async def watches(context: Context) -> Context:
        session = context["session"]["id"]
        assert session not in running
        running.add(session)
        came.setdefault(session, []).append(context["sequence"])
        await asyncio.sleep(0)
        running.remove(session)
        return {"decision": "allow"}

    shuffled = [call(session=f"s{n % 3}", sequence=(n * 7) % 30) for n in range(30)]
    captured = captured_by_hand(tmp_path / "kept", *shuffled)
    async with serving(shared_server.url, before=allow, after=watches) as bus:
        compared, report = await replayed(bus, captured, concurrency=3)
    assert len(compared) == 30
    assert report.differences == []
    assert len(came) == 3
    assert all(sequences == sorted(sequences) for sequences in came.values())


async def test_a_second_attempt_is_compared_once(tmp_path: Path, shared_server: EmbeddedServer) -> None:
    captured = captured_by_hand(tmp_path / "kept", call(), call(), question_ids=["same", "same"])
    async with serving(shared_server.url, before=allow, after=allow) as bus:
        compared, report = await replayed(bus, captured)
    assert len(compared) == 1
    assert report.to_wire((set(), set()))["captured"]["repeated"] == 1


def test_a_share_of_the_sessions_is_the_same_each_time_and_part_of_a_larger_one() -> None:
    names = [f"session-{number}" for number in range(1000)]
    small, large, every, none = (
        {name for name in names if Selection(share=share).takes("input", name)} for share in (0.2, 0.5, 1.0, 0.0)
    )
    assert small < large < every == set(names)
    assert none == set()
    assert 150 < len(small) < 250


def test_only_the_points_that_are_named_are_replayed(folder: Path) -> None:
    captured = Captured(folder, PRIVATE_KEY)
    assert len(Sessions(captured, Selection(frozenset({InterceptionPoint.PRE_TOOL_CALL})))) == 3
    assert len(Sessions(captured, Selection())) == 5


# ---- nothing live is touched -------------------------------------------------------------------------


@pytest.mark.parametrize(("agent", "asks_as"), [("replay", "replay"), (None, asking.AGENT)])
async def test_a_replayed_question_has_an_id_a_session_and_a_tenant_of_its_own(
    tmp_path: Path, shared_server: EmbeddedServer, agent: str | None, asks_as: str
) -> None:
    seen: list[tuple[str, str, Context]] = []

    def sees(context: Context) -> Context:
        seen.append((question().id, question().agent, context))
        return {"decision": "allow"}

    live = call(session="live", tenant={"id": "somebody-else"})
    captured = captured_by_hand(tmp_path / "kept", live, question_ids=["the-live-id"])
    async with serving(shared_server.url, before=allow, after=sees) as bus:
        await replayed(bus, captured, agent=agent)
        await replayed(bus, captured, agent=agent)
        tenant = bus.settings.tenant
    assert [agent for _, agent, _ in seen] == [asks_as] * 2
    assert len({identifier for identifier, _, _ in seen} | {"the-live-id"}) == 3
    sessions = {context["session"]["id"] for _, _, context in seen}
    assert len(sessions | {"live"}) == 3
    for _, _, context in seen:
        readdressed = {"agent": live["agent"], "session": live["session"], "tenant": live["tenant"]}
        assert {**context, **readdressed} == live
        assert context["tenant"] == {"id": tenant}


@pytest.mark.parametrize("agent", ["replay", None])
async def test_the_answer_to_a_replayed_question_never_settles_a_live_one(
    tmp_path: Path, shared_server: EmbeddedServer, agent: str | None
) -> None:
    live_came, decide = asyncio.Event(), asyncio.Event()

    async def decides(context: Context) -> Context:
        if context["session"]["id"] != "live":
            return {"decision": "allow"}
        live_came.set()
        await decide.wait()
        return {"decision": "deny", "reason": "the-live-one"}

    context = call(session="live")
    captured = captured_by_hand(tmp_path / "kept", context)
    async with serving(shared_server.url, before=allow, after=decides) as bus:
        async with hookbus.connect(shared_server.url, tenant=bus.settings.tenant) as live:
            [asked] = live.asker.ask(
                outgoing(prepare(context)),
                [(live.interceptor("after"), 30.0)],
                lambda body: Judgement(json.loads(body), True),
                live_came.set,
            )
            await live_came.wait()
            [compared], _ = await replayed(bus, captured, agent=agent)
            assert compared.candidate.permits
            assert asked.outcome is None
            assert live.dropped_answers == {}
            decide.set()
            async with asyncio.timeout(30):
                while asked.outcome is None:
                    live_came.clear()
                    await live_came.wait()
    assert isinstance(asked.outcome, Answer)
    assert asked.outcome.judgement.verdict["reason"] == "the-live-one"


async def test_a_point_that_is_none_reaches_no_subject(tmp_path: Path, shared_server: EmbeddedServer) -> None:
    forged = [
        {**call(), "interception_point": "pre_tool_call.x 5\r\nPUB hb.v1.x 0\r\n"},
        {key: value for key, value in call().items() if key != "target"},
        {},
    ]
    captured = captured_by_hand(tmp_path / "kept", *forged)
    async with serving(shared_server.url, before=allow, after=allow) as bus:
        compared, report = await replayed(bus, captured)
    assert [each.candidate.decision for each in compared] == ["unsendable"] * 3
    assert not report.passes(allow_flips=True)


async def test_with_generated_permissions_it_asks_as_its_own_agent_and_as_no_other(tmp_path: Path) -> None:
    captured = captured_by_hand(tmp_path / "kept", call())
    names = {"current": "policy", "candidate": "redactor"}
    with Deployment(tmp_path / "hookbus-auth") as deployed:
        async with AsyncExitStack() as stack:
            for name in names.values():
                bus = hookbus.connect(config=deployed.settings(Role.WORKER, name))
                await stack.enter_async_context(bus)
                await stack.enter_async_context(Worker(bus, allow, name=name))
            bus = hookbus.connect(config=deployed.settings(Role.AGENT, "travel"))
            await stack.enter_async_context(bus)
            [compared], report = await replayed(bus, captured, agent="travel", **names)
            assert compared.candidate.permits
            assert report.passes(allow_flips=False)
            with pytest.raises(QuestionFailed) as failed:
                await replayed(bus, captured, agent=None, **names)
            assert failed.value.failure is Failure.REFUSED


# ---- what an answer comes to -------------------------------------------------------------------------


def came_to(verdict: Json, point: str = "output") -> Outcome:
    context = {"interception_point": point, "target": {"content": "text", "n": 1}}
    return of_body(json.dumps(verdict).encode(), context)


def replacing(path: str, value: Json, **more: Any) -> Json:
    return {"decision": "transform", "transform": {"path": path, "value": value}, **more}


ALLOW = {"decision": "allow"}
DENY = {"decision": "deny", "reason": "no"}


@pytest.mark.parametrize(
    ("current", "candidate", "differs"),
    [
        (ALLOW, ALLOW, None),
        (ALLOW, DENY, Change.TO_DENY),
        (DENY, ALLOW, Change.TO_ALLOW),
        (DENY, DENY, None),
        (DENY, {"decision": "deny", "reason": "other"}, Change.DENIED_OTHERWISE),
        (DENY, {**DENY, "approval": {}}, Change.DENIED_OTHERWISE),
        (DENY, {**DENY, "message": "said otherwise"}, None),
        (ALLOW, replacing("$target.content", "text"), None),
        (ALLOW, replacing("$target.content", "other"), Change.PERMITTED_OTHERWISE),
        (ALLOW, replacing("$target.n", True), Change.PERMITTED_OTHERWISE),
        (replacing("$target.content", "x"), replacing("$target", {"content": "x", "n": 1}), None),
        (ALLOW, {**ALLOW, "result_labels": ["untrusted"]}, Change.PERMITTED_OTHERWISE),
        (DENY, replacing("$target.content", "x"), Change.TO_ALLOW),
        (ALLOW, replacing("$target.missing.deep", "x"), Change.TO_DENY),
        (ALLOW, replacing("$other", "x"), Change.TO_DENY),
        (ALLOW, {"decision": "maybe"}, Change.TO_DENY),
        (ALLOW, {}, Change.TO_DENY),
        (ALLOW, [], Change.TO_DENY),
    ],
)
def test_what_goes_on_is_compared_and_not_how_it_is_said(
    current: Json, candidate: Json, differs: Change | None
) -> None:
    assert change(came_to(current), came_to(candidate)) is differs


@pytest.mark.parametrize("reason", [f"no {SECRET}", "\x1b[2J", "x" * 200, "ñ"])
def test_a_reason_that_is_no_token_is_not_told(reason: str) -> None:
    assert came_to({"decision": "deny", "reason": reason}).shown() == f"deny {UNTOLD}"


def test_a_transform_where_none_is_permitted_denies_as_it_does_in_a_host() -> None:
    outcome = came_to(replacing("$target", "x"), "agent_startup")
    assert outcome.shown() == "deny host_error:transform_target_forbidden"


@pytest.mark.parametrize("body", [b"", b"\xff", b'{"decision":"deny","decision":"allow"}', b'{"decision":NaN}'])
def test_no_bytes_but_a_verdict_ever_permit(body: bytes) -> None:
    outcome = of_body(body, {"interception_point": "output", "target": 1})
    assert outcome.shown() == "deny host_error:verdict_invalid"


@pytest.mark.parametrize("failure", list(Failure))
def test_no_failure_ever_permits(failure: Failure) -> None:
    assert not of_failure(failure).permits


# ---- the command -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tenant(shared_server: EmbeddedServer) -> Iterator[str]:
    """A tenant in which ``before`` and ``after`` answer, in processes of their own."""
    tenant = f"t{uuid4().hex}"
    target = "tests.interceptors.replayed"
    with (
        WorkerProcess(f"{target}:Before", "before", url=shared_server.url, tenant=tenant),
        WorkerProcess(f"{target}:After", "after", url=shared_server.url, tenant=tenant),
    ):
        yield tenant


Run = Callable[..., click.testing.Result]


@pytest.fixture
def run(shared_server: EmbeddedServer, tenant: str, folder: Path, tmp_path: Path) -> Run:
    """Runs ``hookbus replay run`` on *folder* with further arguments."""
    key = tmp_path / "replay.key"
    key.write_bytes(PRIVATE_PEM)

    def invoke(*arguments: str) -> click.testing.Result:
        where = ["--url", shared_server.url, "--tenant", tenant, "--captured", str(folder), "--key", str(key)]
        names = ["--current", "before", "--candidate", "after"]
        # What the terminal of the tests is like must not fold the table.
        return CliRunner().invoke(app, ["run", *where, *names, *arguments], env={"COLUMNS": "300"})

    return invoke


def test_the_command_reports_flips_without_a_word_of_a_context_and_exits_with_1(run: Run, folder: Path) -> None:
    result = run()
    assert result.exit_code == 1, result.output
    assert "current: before before" in result.output
    assert "5 compared: 1 allow to deny, 1 deny to allow, 1 permitted otherwise" in result.output
    rows = [line for line in result.output.splitlines() if "pre_tool_call" in line]
    assert ["deny money:no-payments" in row and "allow to deny" in row for row in rows] == [True, False]
    assert ["deny db:no-drops" in row and "deny to allow" in row for row in rows] == [False, True]
    assert SECRET not in result.output


def test_the_command_names_every_record_as_json_and_shows_one_to_who_has_the_key(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    result = run("--json", "--allow-flips")
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    told = json.loads(result.stdout)
    assert told["candidate"] == {"interceptor": "after", "policies": ["after"]}
    assert (told["compared"], told["counts"]["allow to deny"]) == (5, 1)
    (flip,) = [each for each in told["differences"] if each["change"] == "allow to deny"]
    assert flip["tool"] == "pay"
    assert flip["candidate"] == {"decision": "deny", "reason": "money:no-payments"}
    where = ["--captured", str(folder), "--key", str(tmp_path / "replay.key")]
    shown = CliRunner().invoke(app, ["show", flip["record"], *where])
    assert json.loads(shown.stdout)["tool_call"] == {"id": "call-1", "name": "pay", "args": {"text": SECRET}}


def test_the_command_exits_with_0_where_nothing_differs(run: Run) -> None:
    result = run("--point", "input")
    assert result.exit_code == 0, result.output
    assert "1 compared: no difference" in result.output


def test_the_command_refuses_a_key_that_is_none_and_a_candidate_that_is_the_current_one(
    run: Run, tmp_path: Path
) -> None:
    assert run("--candidate", "before").exit_code == 2
    (tmp_path / "replay.key").write_text("no key")
    assert run().exit_code == 2


def test_keygen_replaces_no_private_key_and_its_pair_fits(tmp_path: Path) -> None:
    keys = ["--key", str(tmp_path / "replay.key"), "--public", str(tmp_path / "capture.pub")]
    assert CliRunner().invoke(app, ["keygen", *keys]).exit_code == 0
    private = (tmp_path / "replay.key").read_bytes()
    assert (tmp_path / "replay.key").stat().st_mode & 0o777 == 0o600
    made = capture(tmp_path / "kept", public_key=(tmp_path / "capture.pub").read_text())
    assert TestClient(made).input("hello").permits
    where = ["--captured", str(tmp_path / "kept"), "--key", str(tmp_path / "replay.key")]
    (path,) = segments(tmp_path / "kept")
    shown = CliRunner().invoke(app, ["show", f"{path.stem}.0", *where])
    assert json.loads(shown.stdout)["input"]["content"] == "hello"
    assert CliRunner().invoke(app, ["keygen", *keys]).exit_code == 2
    assert (tmp_path / "replay.key").read_bytes() == private


# ---- the page ----------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "interceptors" / "replay.md").read_text("utf-8")


def test_the_table_of_the_page_is_a_fleet_and_names_every_setting(tmp_path: Path) -> None:
    (fleet,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "fleet.toml").write_text(fleet)
    (tmp_path / "capture.pub").write_text(PUBLIC_PEM)
    assert FleetPlan.model_validate(tomllib.loads(fleet)).interceptors["capture"].target.endswith(":Capture")
    made = Capture.from_config(tmp_path / "fleet.toml", "interceptors.capture.configuration")
    assert made.current.configuration.keep_days == 14
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert named == set(CaptureConfiguration.model_fields) - {"version"}


def test_the_page_names_every_option_and_every_change() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "300", "NO_COLOR": "1"}).output
    for option in set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}:
        assert f"`{option}`" in PAGE, option
    for each in Change:
        assert each.value in PAGE
