"""``hookbus shadow report`` over real workers: what they counted is asked for, summed and shown."""

from __future__ import annotations

import io
import json
import signal
import tomllib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import hookbus
from hookbus import envelope
from hookbus.authority.roles import Role
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker
from hookbus_interceptors.authoring.testing import AsyncTestClient
from hookbus_interceptors.fleet.plan import FleetPlan, read_fleet
from hookbus_interceptors.service import MAX_OFFERED_BYTES
from hookbus_interceptors.shadow import Shadow, ShadowConfiguration, Stage
from hookbus_interceptors.shadow.cli import TooFewWorkers, app, show
from hookbus_interceptors.shadow.comparison import Said
from hookbus_interceptors.shadow.counts import Disagreement, Phase, PhaseCounts
from hookbus_interceptors.shadow.report import Progress, WorkerStats, ask_workers, summed
from tests.authority.deployment import Deployment
from tests.interceptors import shadow_sides
from tests.worker.asking import Asker, context, eventually
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = pytest.mark.anyio

SIDES = "tests.interceptors.shadow_sides"


@pytest.fixture
async def asker(shared_server: EmbeddedServer) -> AsyncIterator[Asker]:
    async with Asker(shared_server.url) as one:
        yield one


def trial(**more: Any) -> Shadow:
    sides = {"current": {"target": f"{SIDES}:current"}, "candidate": {"target": f"{SIDES}:candidate_versioned"}}
    return Shadow(ShadowConfiguration.model_validate({"share": 1, **sides, **more}))


def call(candidate: str, session: str = "session") -> dict[str, Any]:
    args = {"current": "allow", "candidate": candidate}
    asked = context(args, session={"id": session})
    return {**asked, "tool_call": {**asked["tool_call"], "args": args}}


async def report(asker: Asker, *arguments: str) -> Result:
    """What the command writes and returns, in a thread: it has an event loop of its own."""
    command = ["report", *arguments, "--url", asker.url, "--tenant", asker.tenant]
    return await anyio.to_thread.run_sync(lambda: CliRunner().invoke(app, command))


async def stats(asker: Asker, interceptor: str | None = None, expected: int = 1) -> list[Progress]:
    return summed(await ask_workers(asker.bus, interceptor, inbox="_INBOX", wait_s=10, expected=expected))


async def test_the_counts_of_all_workers_of_all_interceptors_are_one_report(asker: Asker) -> None:
    asked = {"allow": 4, "deny": 3, "raise": 2}
    async with AsyncExitStack() as stack:
        # Each on a connection of its own, in the same queue group: the server spreads the questions.
        for name in ("policy", "policy", "other"):
            bus = await stack.enter_async_context(hookbus.connect(asker.url, tenant=asker.tenant))
            await stack.enter_async_context(Worker(bus, trial(), name=name, points=["pre_tool_call", "input"]))
        for how, times in asked.items():
            for number in range(times):
                answer = await asker.ask(call(how, f"secret-session-{number}"))
                assert answer.verdict == {"decision": "allow"}
                assert answer.headers[envelope.POLICY] == f"{SIDES}:current"
        await asker.ask(call("allow"), interceptor="other")

        async def all_compared() -> bool:
            counts = sum((Counter(one.counts) for one in await stats(asker, expected=3)), Counter[str]())
            return counts.total() == 2 * counts["decided_by_current"]

        await eventually(all_compared)
        written = await report(asker, "--json", "--workers", "3", "--wait-s", "20")
        shown = await report(asker, "policy", "--workers", "2", "--wait-s", "20")
    assert written.exit_code == 0, written.output
    other, policy = json.loads(written.output)
    assert (other["interceptor"], other["workers"]) == ("other", 1)
    assert other["counts"] == {"decided_by_current": 1, "agreed": 1}
    assert (policy["interceptor"], policy["workers"]) == ("policy", 2)
    assert policy["counts"] == {"decided_by_current": 9, "agreed": 4, "disagreed": 3, "raised": 2}
    assert policy["phase"] == {"stage": "shadow", "share": 1.0, "current": f"{SIDES}:current", "candidate": "7"}
    assert policy["disagreements"] == [
        {
            "point": "pre_tool_call",
            "differs": "decision",
            "current": {"decision": "allow"},
            "candidate": {"decision": said[0], "reason": said[1]},
            "count": count,
        }
        for said, count in ((("deny", "side:no"), 3), (("raised", "FaultOfIts"), 2))
    ]
    assert "secret-session" not in written.output
    assert shown.exit_code == 0
    assert "other" not in shown.output
    for words in ("policy: shadow 100.00%, workers: 2", "deny side:no", "raised FaultOfIts"):
        assert words in shown.output


async def test_a_candidate_that_holds_its_loop_for_ever_delays_no_answer(asker: Asker) -> None:
    shadow_sides.RELEASED.clear()
    try:
        async with Worker(asker.bus, trial(concurrency=2), name="policy"):
            for _ in range(5):
                assert (await asker.ask(call("hold the loop"))).verdict == {"decision": "allow"}
            (one,) = await stats(asker)
            assert one.counts == {"decided_by_current": 5, "skipped": 3}
    finally:
        shadow_sides.RELEASED.set()


async def test_where_the_candidate_decides_its_failure_is_the_workers(asker: Asker) -> None:
    async with Worker(asker.bus, trial(stage="canary", timeout_s=0.05), name="policy"):
        raised = await asker.ask(call("raise"))
        assert raised.error == ("500", "FaultOfIts")
        late = await asker.ask(call("hang"))
        assert late.error == ("500", "CandidateTimedOut")
        denied = await asker.ask(call("deny"))
        assert denied.verdict["reason"] == "side:no"
        assert {answer.headers[envelope.POLICY] for answer in (raised, late, denied)} == {"7"}
        (one,) = await stats(asker)
        assert one.counts == {"decided_by_candidate": 3}


async def test_a_worker_process_goes_through_the_stages_as_its_file_says(asker: Asker, tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"

    def write(stage: str) -> None:
        sides = "".join(
            f'[{side}]\ntarget = "{SIDES}:RefuseWords"\n'
            f'[{side}.configuration]\nversion = "{side}"\ntools = {tools}\n'
            for side, tools in (("current", []), ("candidate", ["book"]))
        )
        written = path.with_suffix(".new")
        written.write_text(f'stage = "{stage}"\nshare = 1\n{sides}')
        written.replace(path)

    async def decides(side: str) -> bool:
        answer = await asker.ask()
        version = answer.headers[envelope.POLICY].partition("+")[0]
        assert answer.verdict["decision"] == {"current": "allow", "candidate": "deny"}[version]
        return version == side

    write("shadow")
    target, arguments = "hookbus_interceptors.shadow:Shadow", ("--interceptor-config", str(path))
    with WorkerProcess(target, "policy", *arguments, url=asker.url, tenant=asker.tenant) as worker:
        assert await decides("current")
        for stage, side in (("canary", "candidate"), ("shadow", "current"), ("all", "candidate")):
            write(stage)
            await eventually(partial(decides, side))
        assert {one.phase.stage for one in await stats(asker)} == set(Stage)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


@pytest.mark.parametrize("interceptor", ["provenance", "egress", "schema-guard", "approval-gate"])
async def test_the_shipped_interceptors_can_be_candidates_with_their_own_settings(interceptor: str) -> None:
    plan = read_fleet(ROOT / "deploy/dojo.toml").interceptors[interceptor]
    side = {"target": plan.target, "configuration": plan.configuration}
    shadow = Shadow(
        ShadowConfiguration.model_validate({"share": 1, "timeout_s": 30, "current": side, "candidate": side})
    )
    assert (await AsyncTestClient(shadow).pre_tool_call("book", {"url": "https://example.org"})).error is None

    async def agreed() -> bool:
        return shadow.service_stats(None)["shadow"][0].counts == {"decided_by_current": 1, "agreed": 1}  # type: ignore[index]

    await eventually(agreed)


async def test_fewer_workers_than_there_are_said_to_be_is_an_error(asker: Asker) -> None:
    async with Worker(asker.bus, trial(), name="policy"):
        written = await report(asker, "--workers", "2", "--wait-s", "0.2")
    assert isinstance(written.exception, TooFewWorkers)
    assert str(written.exception).startswith("1 of 2 workers answered")


async def test_an_operator_with_the_least_permissions_has_its_report(tmp_path: Path) -> None:
    with Deployment(tmp_path / "hookbus-auth") as deployment:
        async with hookbus.connect(config=deployment.settings(Role.WORKER, "policy")) as bus:
            async with Worker(bus, trial(), name="policy"):
                olga = str(deployment.settings(Role.OPERATOR, "olga"))
                command = ["report", "--json", "--workers", "1", "--wait-s", "20", "--config", olga]
                written = await anyio.to_thread.run_sync(
                    lambda: CliRunner().invoke(app, [*command, "--operator", "olga"])
                )
                assert written.exit_code == 0
                # No question has come yet.
                (one,) = json.loads(written.output)
                assert (one["phase"]["stage"], one["workers"], one["counts"]) == ("shadow", 1, {})
                # The inbox of everybody is not its own.
                command[command.index("20")] = "0.2"
                refused = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(app, command))
                assert isinstance(refused.exception, TooFewWorkers)


async def test_workers_of_another_tenant_and_without_a_candidate_have_no_part_in_it(asker: Asker) -> None:
    async with hookbus.connect(asker.url, tenant="another") as bus:
        async with Worker(bus, trial(), name="policy"), Worker(asker.bus, shadow_sides.current, name="plain"):
            heard = await ask_workers(asker.bus, None, inbox="_INBOX", wait_s=10, expected=1)
            written = await report(asker, "--workers", "1", "--wait-s", "20")
    assert [worker.name for worker in heard] == ["plain"]
    assert written.output == "No worker that answered has a candidate.\n"


class Offering:
    """An interceptor whose statistics are as the test wants them."""

    def __init__(self, offered: Any) -> None:
        self._offered = offered

    def intercept(self, _context: dict[str, Any], /) -> dict[str, str]:
        return {"decision": "allow"}

    def service_stats(self, point: str | None) -> Any:
        if isinstance(self._offered, Exception):
            raise self._offered
        return self._offered


@pytest.mark.parametrize(
    ("offered", "shown"),
    [
        ({"mine": 1, "answered": 99}, {"mine": 1, "answered": 1}),
        (ValueError("secret"), {"answered": 1}),
        ([1], {"answered": 1}),
        (object(), {"answered": 1}),
        ({"mine": "x" * MAX_OFFERED_BYTES}, {"answered": 1}),
    ],
)
async def test_what_an_interceptor_adds_to_the_statistics_never_harms_them(
    asker: Asker, offered: Any, shown: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[dict[str, Any]] = []
    asker.bus.serve(["_INBOX.test"], "", lambda message: heard.append(json.loads(message.body)), on_refused=print)

    async def is_heard() -> bool:
        return bool(heard)

    async with Worker(asker.bus, Offering(offered), name="policy") as worker:
        await asker.ask()
        asker.bus.publish(f"$SRV.STATS.policy.{worker.id}", b"", reply="_INBOX.test")
        await eventually(is_heard)
    assert heard[0]["endpoints"][0]["data"] == shown
    assert "secret" not in caplog.text


def test_what_is_shown_is_never_taken_for_markup_and_other_kinds_are_named() -> None:
    phase = Phase("shadow", 0.125, "[bold]1", "2")
    said = Said("deny", "[red]x"), Said("allow")
    kinds = [Disagreement("input", "decision", *said, 3)]
    written = io.StringIO()
    progress = Progress("policy", phase, 2, {"disagreed": 3, "raised": 1, "timed_out": 1}, kinds, 4)
    show(Console(file=written, width=200, color_system=None), [progress])
    for words in ("[bold]1", "deny [red]x", "policy: shadow 12.50%", "(other kinds)"):
        assert words in written.getvalue()


def test_the_same_phase_of_two_workers_is_summed_and_another_is_not() -> None:
    said = Said("allow"), Said("deny", "no")
    phases = [Phase("shadow", share, "1", "2") for share in (0.1, 0.2)]

    def worker(id: str, *parts: PhaseCounts) -> Any:
        endpoints = [{"data": {"answered": 5, "shadow": [part]}} for part in parts]
        document = {"id": id, "name": "policy", "metadata": {"hb-tenant": "t"}, "endpoints": endpoints}
        return msgspec.convert(msgspec.to_builtins(document), WorkerStats)

    def part(phase: Phase, point: str, count: int) -> PhaseCounts:
        return PhaseCounts(phase, {"disagreed": count}, [Disagreement(point, "decision", *said, count)], 1)

    one = worker("a", part(phases[0], "input", 1), part(phases[0], "output", 2))
    other = worker("b", part(phases[0], "input", 5), part(phases[1], "input", 7))
    first, second = summed([one, other])
    assert (first.phase, first.workers, first.counts, first.others) == (phases[0], 2, {"disagreed": 8}, 3)
    assert [(kind.point, kind.count) for kind in first.disagreements] == [("input", 6), ("output", 2)]
    assert (second.phase, second.workers, second.counts) == (phases[1], 1, {"disagreed": 7})


def test_the_trial_of_the_documentation_is_one() -> None:
    text = (ROOT / "docs/interceptors/shadow.md").read_text("utf-8")
    plan = FleetPlan.model_validate(tomllib.loads(text.split("```toml\n")[1].split("```")[0]))
    assert plan.interceptors["refuse-tools"].target == "hookbus_interceptors.shadow:Shadow"
    settings = ShadowConfiguration.model_validate(plan.interceptors["refuse-tools"].configuration)
    assert settings.stage is Stage.SHADOW
    assert Shadow(settings).points == {"pre_tool_call"}
