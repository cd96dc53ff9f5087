"""A bucket for a worker whose own role reaches no JetStream: budgets and rates with the permissions of a store."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.authority.changes import Authority
from hookbus.authority.errors import NameInvalid
from hookbus.authority.roles import Role
from hookbus_client import BusEmitter
from hookbus_interceptors import Worker
from hookbus_interceptors.budget import Budget, BudgetConfiguration
from hookbus_interceptors.rate_limit import RateLimit, RateLimitConfiguration
from hookbus_interceptors.store import StoreDown, StoreRefused, StoreSettings, StoreSilent
from hookbus_interceptors.store.bucket import Bucket
from tests.authority.command import succeeded
from tests.authority.deployment import Deployment
from tests.worker.asking import eventually

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "interceptors" / "budget.md").read_text("utf-8")
TWO_CALLS = [{"per": ["agent"], "tool_calls": 2}]
TWO_AN_HOUR = [{"name": "all", "key": ["agent"], "rates": [{"calls": 2, "within_s": 3600}]}]


def told(settings: Path) -> dict[str, Any]:
    """Return the configuration of a store that the generated *settings* tell, in a comment, to write."""
    (line,) = (line for line in settings.read_text("utf-8").splitlines() if line.startswith("# store = "))
    store: dict[str, Any] = tomllib.loads(line.removeprefix("# "))["store"]
    return store


def budget(deployed: Deployment, bucket: str = "hookbus-budget", tenant: str = "default") -> Budget:
    store = told(deployed.settings(Role.STORE, bucket, tenant))
    return Budget(BudgetConfiguration.model_validate({"limits": TWO_CALLS, "store": store}))


def rate_limit(deployed: Deployment) -> RateLimit:
    store = told(deployed.settings(Role.STORE, "hookbus-rate-limit"))
    return RateLimit(RateLimitConfiguration.model_validate({"rules": TWO_AN_HOUR, "store": store}))


@asynccontextmanager
async def serving(deployed: Deployment, interceptor: Any, tenant: str = "default") -> AsyncIterator[Worker]:
    """Serve *interceptor* as the worker of ``policy``, whose own credentials reach no JetStream."""
    settings = deployed.settings(Role.WORKER, "policy", tenant)
    async with hookbus.connect(config=settings) as bus, Worker(bus, interceptor, name="policy") as worker:
        yield worker


async def called(deployed: Deployment, times: int, agent: str = "travel", tenant: str = "default") -> list[str]:
    """Return what each of so many tool calls of *agent* is decided with: ``allow``, or the reason of a deny."""
    builder = AgentContextBuilder(agent_id=agent, framework="tests", session_id="s")
    decided = []
    async with hookbus.connect(config=deployed.settings(Role.AGENT, agent, tenant)) as bus:
        emitter = BusEmitter(timeout=20.0).register(bus.interceptor("policy"))
        for number in range(times):
            context = builder.pre_tool_call(call_id=str(number), name="book", args={})
            verdict = (await emitter.emit_unchecked(context)).verdict
            decided.append(verdict.reason or verdict.decision.value)
    return decided


async def test_a_budget_counts_for_all_its_workers_in_a_generated_store(own: Deployment) -> None:
    async with serving(own, budget(own)), serving(own, budget(own)):
        assert await called(own, 3) == ["allow", "allow", "budget:tool-calls"]
    # A worker that starts later finds what was counted.
    async with serving(own, budget(own)):
        assert await called(own, 1) == ["budget:tool-calls"]


async def test_a_budget_runs_with_the_file_of_its_page(own: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own.layout.folder.parent
    written = PAGE.partition("cat > budget.toml <<'END'\n")[2].partition("END\n")[0]
    few = written.replace("tool_calls = 200", "tool_calls = 2")
    assert few != written
    (folder / "budget.toml").write_text(few, "utf-8")
    # The page's paths begin with the folder's own name.
    monkeypatch.chdir(folder)
    async with serving(own, Budget.from_config("budget.toml")):
        assert await called(own, 3) == ["allow", "allow", "budget:tool-calls"]


async def test_a_rate_limit_counts_in_a_generated_store_of_its_own(own: Deployment) -> None:
    async with serving(own, rate_limit(own)):
        assert await called(own, 3) == ["allow", "allow", "rate-limit:all"]


async def test_a_store_of_the_same_name_in_another_tenant_is_another(own: Deployment) -> None:
    async with serving(own, budget(own)), serving(own, budget(own, tenant="acme"), "acme"):
        assert await called(own, 3) == ["allow", "allow", "budget:tool-calls"]
        assert await called(own, 3, tenant="acme") == ["allow", "allow", "budget:tool-calls"]


@asynccontextmanager
async def opened(deployed: Deployment, bucket: str) -> AsyncIterator[Bucket]:
    """Open *bucket* once the server, which reads its files in its own time, takes its key."""
    settings = deployed.settings(Role.STORE, bucket)
    while True:
        with contextlib.suppress(hookbus.CannotConnect):
            async with hookbus.connect(config=settings):
                break
    made = Bucket(StoreSettings.model_validate(told(settings)))
    async with made.opened(hookbus.read_settings(tenant="default")):
        yield made


async def test_a_store_added_to_a_running_server_serves_and_once_revoked_it_does_not(own: Deployment) -> None:
    spare = ("store", "spare", "--tenant", "default")
    async with serving(own, budget(own)):
        assert await called(own, 1) == ["allow"]
        succeeded("add", *spare, folder=own.layout.folder)
        async with opened(own, "spare") as bucket, own.wire(Role.STORE, "hookbus-budget") as bystander:
            assert await bucket.replace("default.key", b"{}", revision=0, ttl_s=60, timeout_s=20)
            succeeded("revoke", *spare, folder=own.layout.folder)

            async def down() -> bool:
                try:
                    await bucket.read("default.key", timeout_s=1)
                except StoreDown:
                    return True
                except (StoreSilent, StoreRefused):
                    pass
                return False

            await eventually(down)
            await bystander.flush()
            assert bystander.errors == []
        # What was counted before both changes is still known.
        assert await called(own, 2) == ["allow", "budget:tool-calls"]


@pytest.mark.parametrize("name", ["Budget", "my budget", "x-budget", "budget.b", "b" * 65])
def test_a_store_has_a_name_that_a_bucket_can_have(tmp_path: Path, name: str) -> None:
    names = {Role.STORE: ["hookbus-budget", name]}
    with pytest.raises(NameInvalid, match="cannot be a bucket"):
        Authority.begin(tmp_path / "hookbus-auth", tenants=["default"], names=names)
    assert not (tmp_path / "hookbus-auth").exists()
