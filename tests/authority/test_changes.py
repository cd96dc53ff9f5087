"""Adding, rotating and revoking on a running server: exactly one name is touched, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.authority.changes import Authority
from hookbus.authority.errors import ConfigRefused, NameInvalid, NameTaken, NameUnknown, NothingOlder
from hookbus.authority.roles import Role
from hookbus_client import BusEmitter
from hookbus_interceptors import Worker
from tests.authority.command import succeeded
from tests.authority.deployment import Deployment
from tests.authority.wire import SignInRefused, Wire

pytestmark = pytest.mark.anyio

OWN_ANSWERS = "hb.v1.default.ans.*.payroll.c0ffee.*"


async def sign_in(deployed: Deployment, seed: Path) -> Wire:
    """Return a connected client as soon as the server, which reads its files in its own time, takes its key."""
    while True:
        try:
            return await deployed.wire_with(seed).__aenter__()
        except SignInRefused:
            continue


async def leave(wire: Wire) -> None:
    await wire.__aexit__(None, None, None)


async def test_a_name_added_may_connect_while_others_stay_connected(own: Deployment) -> None:
    settings = own.settings(Role.AGENT, "payroll")
    async with own.wire(Role.AGENT, "payroll") as bystander, hookbus.connect(config=settings) as bus:
        bystander.subscribe(OWN_ANSWERS)
        succeeded("add", "agent", "new", "--tenant", "default", folder=own.layout.folder)
        new = await sign_in(own, own.layout.seed("default", Role.AGENT, "new"))
        new.publish("hb.v1.default.ctx.policy.input.new", b"")
        new.publish("hb.v1.default.ctx.policy.input.payroll", b"")
        await new.flush()
        assert len(new.errors) == 1
        await leave(new)
        await heard_after_the_change(own, bystander)
        await bus.flush(timeout_s=10)
        assert bus.reconnects == 0
        assert bus.is_connected


async def heard_after_the_change(own: Deployment, bystander: Wire) -> None:
    """Hold that *bystander*, payroll's, is the same connection with the subscription it made before."""
    async with own.wire(Role.WORKER, "policy") as worker:
        worker.publish("hb.v1.default.ans.policy.payroll.c0ffee.1", b"still here")
        await worker.flush()
    assert (await bystander.next()).body == b"still here"
    assert bystander.errors == []


async def test_nothing_is_denied_while_the_server_reads_its_configuration(own: Deployment) -> None:
    builder = AgentContextBuilder(agent_id="travel", framework="tests", session_id="s")
    decisions: list[str] = []
    changed = asyncio.Event()
    async with (
        hookbus.connect(config=own.settings(Role.AGENT, "travel")) as agent,
        hookbus.connect(config=own.settings(Role.WORKER, "policy")) as bus,
        Worker(bus, lambda context: {"decision": "allow"}, name="policy"),
        asyncio.TaskGroup() as tasks,
    ):
        emitter = BusEmitter(timeout=20.0).register(agent.interceptor("policy"))

        async def emit() -> None:
            while not changed.is_set():
                call = builder.pre_tool_call(call_id="c", name="book", args={})
                decisions.append((await emitter.emit_unchecked(call)).verdict.decision.value)

        tasks.create_task(emit())
        for name in ("first", "second", "third"):
            await asyncio.to_thread(own.authority.add, "default", Role.AGENT, name)
            own.authority.reload()
            await leave(await sign_in(own, own.layout.seed("default", Role.AGENT, name)))
        changed.set()
        assert (agent.reconnects, bus.reconnects) == (0, 0)
    assert set(decisions) == {"allow"}


async def test_a_name_revoked_is_disconnected_and_nobody_else_is(own: Deployment) -> None:
    seed = own.layout.seed("default", Role.AGENT, "travel")
    kept = own.layout.folder / "copied.nk"
    kept.write_bytes(seed.read_bytes())
    async with own.wire(Role.AGENT, "payroll") as bystander, own.wire(Role.AGENT, "travel") as revoked:
        bystander.subscribe(OWN_ANSWERS)
        succeeded("revoke", "agent", "travel", "--tenant", "default", folder=own.layout.folder)
        await revoked.closed()
        with pytest.raises(SignInRefused):
            await own.wire_with(kept).__aenter__()
        await heard_after_the_change(own, bystander)
    assert not seed.exists()
    assert not own.settings(Role.AGENT, "travel").exists()
    assert "travel" not in own.layout.trust("default").read_text("utf-8")
    # The name of the other tenant is another one.
    async with own.wire(Role.AGENT, "travel", "acme") as other:
        assert other.errors == []


async def test_old_and_new_key_are_accepted_until_the_old_is_revoked(own: Deployment) -> None:
    seed = own.layout.seed("default", Role.WORKER, "policy")
    kept = own.layout.folder / "copied.nk"
    kept.write_bytes(seed.read_bytes())
    async with own.wire(Role.AGENT, "payroll") as bystander, own.wire(Role.WORKER, "policy") as old:
        bystander.subscribe(OWN_ANSWERS)
        succeeded("rotate", "worker", "policy", "--tenant", "default", folder=own.layout.folder)
        assert seed.read_bytes() != kept.read_bytes()
        new = await sign_in(own, seed)
        await old.flush()
        async with own.wire_with(kept) as old_again:
            assert old_again.errors == []
        keys = own.authority.roster("default").get(Role.WORKER, "policy").keys
        trusted = hookbus.signing.read_trust(own.layout.trust("default")).of_interceptor("policy")
        assert trusted == set(keys)
        assert len(keys) == 2

        succeeded("revoke", "--old", "worker", "policy", "--tenant", "default", folder=own.layout.folder)
        await old.closed()
        with pytest.raises(SignInRefused):
            await own.wire_with(kept).__aenter__()
        await new.flush()
        assert new.errors == []
        await leave(new)
        await heard_after_the_change(own, bystander)
        assert own.authority.roster("default").get(Role.WORKER, "policy").keys == keys[-1:]


async def test_a_new_reader_reads_once_an_operator_made_its_durable(own: Deployment) -> None:
    folder = own.layout.folder
    own_inbox = "_INBOX.auditor.new.1"
    pull = "$JS.streams.API.CONSUMER.MSG.NEXT.RECORDS.auditor-new"
    told = succeeded("add", "auditor", "new", "--tenant", "default", folder=folder)
    assert "hookbus auth streams" in told
    auditor = await sign_in(own, own.layout.seed("default", Role.AUDITOR, "new"))
    assert "durable auditor-new on RECORDS" in succeeded("streams", folder=folder)
    async with own.wire(Role.AGENT, "travel") as agent:
        agent.publish("hb.v1.default.rec.travel.input", b'{"a":"record"}')
        await agent.flush()
    auditor.subscribe(own_inbox)
    assert (await auditor.request(pull, inbox=own_inbox)).body == b'{"a":"record"}'
    await leave(auditor)


async def test_what_was_changed_while_no_server_ran_holds_when_it_starts(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "hookbus-auth")
    told = succeeded("add", "agent", "early", "--tenant", "acme", folder=deployment.layout.folder)
    assert "no server runs here with this folder" in told
    with deployment:
        async with deployment.wire(Role.AGENT, "early", "acme") as agent:
            assert agent.errors == []


def test_a_configuration_that_the_server_would_not_take_changes_nothing(own: Deployment) -> None:
    layout, authority = own.layout, own.authority
    layout.server_config.write_text("this is { not a configuration", "utf-8")
    seed = layout.seed("default", Role.AGENT, "travel")
    kept = (layout.trust("default"), layout.accounts_config, seed)
    before = [path.read_bytes() for path in kept]
    for change in (
        lambda: authority.add("default", Role.AGENT, "new"),
        lambda: authority.rotate("default", Role.AGENT, "travel"),
        lambda: authority.revoke("default", Role.AGENT, "travel"),
    ):
        with pytest.raises(ConfigRefused):
            change()
    assert [path.read_bytes() for path in kept] == before
    assert not layout.seed("default", Role.AGENT, "new").exists()
    assert sorted(path.name for path in seed.parent.iterdir()) == [
        "payroll.nk",
        "payroll.toml",
        "travel.nk",
        "travel.toml",
    ]


def test_changes_made_at_once_are_all_kept(tmp_path: Path) -> None:
    authority = Deployment(tmp_path / "hookbus-auth").authority
    names = [f"agent-{number}" for number in range(6)]
    threads = [
        threading.Thread(target=Authority(authority.layout.folder).add, args=("default", Role.AGENT, name))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    added = {entry.name: entry.keys for entry in authority.roster("default").of(Role.AGENT)}
    accounts = authority.layout.accounts_config.read_text("utf-8")
    assert set(names) < set(added)
    assert all(key in accounts for name in names for key in added[name])


def test_a_process_that_is_no_server_is_not_signalled(tmp_path: Path) -> None:
    authority = Deployment(tmp_path / "hookbus-auth").authority
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as stranger:
        authority.layout.pid_file.write_text(str(stranger.pid), "ascii")
        assert authority.reload() is None
        assert stranger.stdin is not None
        stranger.stdin.close()
        assert stranger.wait() == 0
    assert authority.reload() is None
    assert not os.path.exists(f"/proc/{stranger.pid}")


def test_changes_to_names_that_do_not_fit_are_refused_with_what_there_is(tmp_path: Path) -> None:
    authority = Deployment(tmp_path / "hookbus-auth").authority
    with pytest.raises(NameTaken, match="has agent 'travel' already; `hookbus auth rotate agent`"):
        authority.add("default", Role.AGENT, "travel")
    with pytest.raises(NameUnknown, match="has no worker 'travel'; it has 'policy', 'redactor'"):
        authority.rotate("default", Role.WORKER, "travel")
    with pytest.raises(NameUnknown, match="has no auditor 'nobody'; it has 'ada', 'eve'"):
        authority.revoke("default", Role.AUDITOR, "nobody")
    with pytest.raises(NothingOlder, match="worker 'policy' has one key only"):
        authority.revoke_older("default", Role.WORKER, "policy")
    with pytest.raises(NameInvalid, match="no tenant 'other' here; there is acme, default"):
        authority.add("other", Role.AGENT, "travel")
