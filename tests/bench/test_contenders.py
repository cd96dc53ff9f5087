"""The contenders do the same work, and a deny never counts as an emission."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from hookbus import Connection, RemoteInterceptor
from hookbus.server import EmbeddedServer
from hookbus_client.bench.agent import Slice
from hookbus_client.bench.conversations import context_of
from hookbus_client.bench.plan import Case, Contender
from hookbus_client.bench.processes import ChildFailed, Fleet
from hookbus_client.bench.transports import Postbox
from hookbus_client.emitter import BusEmitter

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

DENY = b'{"decision":"deny","reason":"because"}'


def emitter_over(postbox: Postbox, interceptors: int) -> BusEmitter:
    emitter = BusEmitter()
    for number in range(interceptors):
        emitter.register(RemoteInterceptor(cast(Connection, postbox), f"policy-{number}"))
    return emitter


async def test_another_transport_brings_verdicts_to_the_same_emitter() -> None:
    posted: list[tuple[str, bytes]] = []

    async def post(name: str, body: bytes) -> bytes:
        posted.append((name, body))
        return DENY

    record = await emitter_over(Postbox(post), 1).emit_unchecked(context_of("0.5 KB"))
    assert record.verdict.reason == "because"
    assert record.input_identity is not None
    assert [name for name, _ in posted] == ["policy-0"]


async def test_another_transport_that_fails_denies() -> None:
    async def post(name: str, body: bytes) -> bytes:
        raise aiohttp.ClientConnectionError

    record = await emitter_over(Postbox(post), 2).emit_unchecked(context_of("0.5 KB"))
    assert record.verdict.reason == "host_error:interceptor_failed"


@pytest.mark.slow
async def test_an_agent_that_is_denied_ends_the_bench_and_says_why(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        fleet = Fleet(stack, shared_server.url, tmp_path)
        workers = await fleet.workers(Contender.SLOW, 1)
        agent = await fleet.agent(Contender.SLOW, workers)
        await agent.ready()
        # More bytes than this server carries: the emission is denied before anything is sent.
        with pytest.raises(ChildFailed, match="InterceptionBlocked"):
            await agent.measured(Slice(Case("4 MB", 1), 0))
