"""A worker as a process: it serves, drains, exits, and says why."""

from __future__ import annotations

import signal
import uuid

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.server import EmbeddedServer
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio

INTERCEPTORS = "tests.worker.interceptors"


def context(target: object = None) -> dict:
    builder = AgentContextBuilder(agent_id="traveller", framework="tests", session_id="s")
    return builder.pre_tool_call(call_id="1", name="book", args={"habit": target})


async def test_a_worker_process_answers(shared_server: EmbeddedServer) -> None:
    tenant = f"t{uuid.uuid4().hex}"
    with WorkerProcess(f"{INTERCEPTORS}:Deny", "policy", url=shared_server.url, tenant=tenant) as worker:
        async with hookbus.connect(shared_server.url, tenant=tenant) as bus:
            verdict = await bus.interceptor("policy").intercept(context())
            assert verdict == {"decision": "deny", "reason": "because", "message": "pre_tool_call"}
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
