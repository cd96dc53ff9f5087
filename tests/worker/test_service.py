"""What operators see: ``$SRV`` answers that NATS' own tools understand (ADR-32)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.micro.service import EndpointConfig, ServiceConfig, ServiceInfo, ServicePing, ServiceStats

from hookbus_interceptors import Worker
from hookbus_interceptors.service import semantic_version
from tests.worker import interceptors
from tests.worker.asking import Asker, context

pytestmark = pytest.mark.anyio


@pytest.fixture
async def operator(asker: Asker) -> AsyncIterator[Client]:
    client = await nats.connect(asker.url)
    yield client
    await client.close()


async def request(client: Client, subject: str) -> Any:
    return json.loads((await client.request(subject, timeout=5)).data)


async def test_a_worker_answers_for_all_for_its_name_and_for_its_id(asker: Asker, operator: Client) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy", policy="v7") as worker:
        for verb, read in (("PING", ServicePing), ("INFO", ServiceInfo), ("STATS", ServiceStats)):
            for which in ("", ".policy", f".policy.{worker.id}"):
                document = await request(operator, f"$SRV.{verb}{which}")
                assert document["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
                # The library's own reading of it.
                seen = read.from_dict(document)
                assert (seen.name, seen.id) == ("policy", worker.id)
                assert seen.metadata["hb-policy"] == "v7"
                ServiceConfig(name=seen.name, version=seen.version)


async def test_info_names_what_the_worker_subscribes_to(asker: Asker, operator: Client) -> None:
    points = ["input", "pre_tool_call"]
    async with Worker(asker.bus, interceptors.allow, name="Travel Policy", points=points) as worker:
        info = ServiceInfo.from_dict(await request(operator, "$SRV.INFO"))
    assert [endpoint.name for endpoint in info.endpoints] == points
    assert tuple(endpoint.subject for endpoint in info.endpoints) == worker.subjects
    assert {endpoint.queue_group for endpoint in info.endpoints} == {info.name}
    assert info.metadata["hb-interceptor"] == "Travel Policy"
    for endpoint in info.endpoints:
        EndpointConfig(
            name=endpoint.name, handler=None, subject=endpoint.subject, queue_group=endpoint.queue_group
        )


async def test_stats_count_what_became_of_the_questions(asker: Asker, operator: Client) -> None:
    async with Worker(asker.bus, interceptors.misbehave, name="policy"):
        for target in ("behave", "behave", "raise", "large"):
            await asker.ask(context(target))
        await asker.ask(b"{")
        stats = ServiceStats.from_dict(await request(operator, "$SRV.STATS.policy"))
    (endpoint,) = stats.endpoints
    assert (endpoint.num_requests, endpoint.num_errors, endpoint.last_error) == (5, 3, "400:Undecodable")
    assert endpoint.data == {"answered": 2, "500": 2, "400": 1}
    assert 0 < endpoint.average_processing_time == endpoint.processing_time // 4


async def test_stats_are_counted_for_each_point(asker: Asker, operator: Client) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy", points=["input", "output"]):
        await asker.ask(point="output")
        stats = ServiceStats.from_dict(await request(operator, "$SRV.STATS.policy"))
    assert {one.name: one.num_requests for one in stats.endpoints} == {"input": 0, "output": 1}


async def test_srv_answers_go_to_an_inbox_or_nowhere(asker: Asker, operator: Client) -> None:
    heard = []

    async def hear(message: Any) -> None:
        heard.append(message.data)

    await operator.subscribe("somewhere.else", cb=hear)
    await operator.flush()
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        await operator.publish("$SRV.PING.policy", reply="somewhere.else")
        await operator.publish("$SRV.PING.policy")
        await request(operator, "$SRV.PING.policy")
    await operator.flush()
    assert heard == []


async def test_a_worker_that_has_left_is_seen_no_more(asker: Asker, operator: Client) -> None:
    async with Worker(asker.bus, interceptors.allow, name="policy"):
        await request(operator, "$SRV.PING.policy")
    with pytest.raises(nats.errors.NoRespondersError):
        await request(operator, "$SRV.PING.policy")


@pytest.mark.parametrize(
    ("version", "semantic"),
    [
        ("0.1.0", "0.1.0"),
        ("1.2", "1.2.0"),
        ("0.2.0rc1", "0.2.0-rc1"),
        ("1.0.dev3", "1.0.0-dev3"),
        ("2026", "0.0.0"),
    ],
)
def test_the_version_is_always_a_semantic_one(
    version: str, semantic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: version)
    assert semantic_version() == semantic
    ServiceConfig(name="policy", version=semantic)
