"""Agent, worker and server on hosts of their own, and the network between them fails without a word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hookbus.server import EmbeddedServer
from tests.faults.conftest import Note
from tests.faults.emissions import ALLOW, SLACK_S
from tests.faults.namespaces import Hosts, NoNamespaces
from tests.faults.processes import AgentProcess
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    try:
        with Hosts("agent", "worker") as made:
            yield made
    except NoNamespaces as error:
        pytest.skip(f"no network namespaces on this machine: {error}")


@pytest.mark.parametrize("cut", [("agent",), ("worker",), ("agent", "worker")], ids=" and ".join)
async def test_a_partition_denies_in_time_and_is_over_with_nobodys_help_when_it_heals(
    hosts: Hosts, config: str, note: Note, cut: tuple[str, ...]
) -> None:
    # A server that asks its clients seldom keeps giving questions to a worker that it cannot reach.
    server = EmbeddedServer(host="0.0.0.0", config='ping_interval: "500ms"\nping_max: 2')
    with ExitStack() as running:
        with hosts.on("server"):
            running.enter_context(server)
        url = {name: f"nats://{hosts.server_address(name)}:{server.port}" for name in ("agent", "worker")}
        with hosts.on("worker"):
            allow = ("tests.faults.interceptors:Allow", "policy", "--config", config)
            running.enter_context(WorkerProcess(*allow, url=url["worker"]))
        with hosts.on("agent"):
            agent = running.enter_context(AgentProcess(url["agent"], config))
        await agent.allowed(since_s=0)
        for name in cut:
            hosts.cut(name)
        cut_s = time.monotonic()
        await agent.denied(since_s=cut_s, times=5)
        healing_s = time.monotonic()
        assert ALLOW not in agent.between(cut_s, healing_s)
        for name in cut:
            hosts.heal(name)
        back_s = await agent.allowed(since_s=healing_s)
        note(f"{' and '.join(cut)} cut off", agent.between(cut_s, back_s), back_s - healing_s)
    assert agent.latest_s < SLACK_S
