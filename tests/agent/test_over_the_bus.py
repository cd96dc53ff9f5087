"""The agent with its interceptors in workers, over a real NATS server."""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_client.agent import Agent, Hooks
from hookbus_interceptors import Worker
from hookbus_interceptors.hooks import after_tool_execution, before_provider_call, before_tool_execution

from .scripted import ScriptedModel, calls, says

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bus(shared_server: EmbeddedServer) -> AsyncIterator[hookbus.Connection]:
    async with hookbus.connect(shared_server.url, tenant=f"t{uuid.uuid4().hex[:12]}") as connection:
        yield connection


def asking(bus: hookbus.Connection, **where: Any) -> BusEmitter:
    emitter = BusEmitter()
    for name, points in where.items():
        emitter.register(bus.interceptor(name), at=points)
    return emitter


def allow(context: dict[str, Any]) -> dict[str, Any]:
    return {"decision": "allow"}


async def test_plain_hooks_deployed_as_workers_do_what_they_do_as_local_hooks(bus: hookbus.Connection) -> None:
    where: list[int] = []

    def steer(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        where.append(threading.get_ident())
        return [{"role": "system", "content": "Short."}, *messages]

    def policy(call: dict[str, Any]) -> dict[str, Any]:
        return {"authorize": call["args"]["seat_class"] != "first", "result": "First class needs a manager."}

    async def redact(call: dict[str, Any], result: dict[str, Any]) -> str:
        return str(result["value"]).replace("30.111.222", "***")

    booked: list[str] = []

    def book(seat_class: str) -> str:
        booked.append(seat_class)
        return "booked for DNI 30.111.222"

    def script() -> ScriptedModel:
        return ScriptedModel(
            calls(("book", {"seat_class": "first"})), calls(("book", {"seat_class": "second"})), says("done")
        )

    deployed, local = script(), script()
    emitter = asking(bus, all=None, steer=["pre_model_call"], policy=["pre_tool_call"], redact=["post_tool_call"])
    async with (
        Worker(bus, allow, name="all"),
        Worker(bus, before_provider_call(steer), name="steer"),
        Worker(bus, before_tool_execution(policy), name="policy"),
        Worker(bus, after_tool_execution(redact), name="redact"),
    ):
        await Agent(deployed, emitter, agent_id="desk", tools=[book]).run("Book")
    # A sync hook does not block the loop of its worker.
    assert threading.get_ident() not in where

    hooks = Hooks(before_provider_call=steer, before_tool_execution=policy, after_tool_execution=redact)
    await Agent(local, agent_id="desk", tools=[book], hooks=hooks).run("Book")

    assert booked == ["second", "second"]
    for model in (deployed, local):
        assert all(messages[0]["content"] == "Short." for messages in model.asked)
        assert model.asked[2][-1]["content"] == "booked for DNI ***"
        assert "First class needs a manager." in model.asked[1][-1]["content"]


async def test_a_missing_worker_denies_the_call_and_the_model_reads_why(bus: hookbus.Connection) -> None:
    booked: list[int] = []

    def book() -> None:
        booked.append(1)

    model = ScriptedModel(calls(("book", {})), says("I could not."))
    emitter = asking(bus, all=None, policy=["pre_tool_call"])
    async with Worker(bus, allow, name="all"):
        result = await Agent(model, emitter, agent_id="desk", tools=[book]).run("Book")
    read = model.asked[1][-1]["content"]
    assert booked == []
    assert "host_error:interceptor_failed" in read
    assert "absent" in read
    assert "'policy'" in read
    assert result.output == "I could not."


async def test_parallel_calls_ask_over_the_bus_at_once_and_keep_their_order(bus: hookbus.Connection) -> None:
    async def double(n: int) -> int:
        return 2 * n

    model = ScriptedModel(calls(*(("double", {"n": n}) for n in range(30))), says("done"))
    seen: list[tuple[str, int]] = []

    def look(context: dict[str, Any]) -> dict[str, Any]:
        seen.append((context["interception_point"], context["sequence"]))
        return {"decision": "allow"}

    async with Worker(bus, look, name="all"):
        result = await Agent(model, asking(bus, all=None), agent_id="desk", tools=[double]).run("Go")
    assert [message["content"] for message in model.asked[1][-30:]] == [str(2 * n) for n in range(30)]
    assert sorted(sequence for _, sequence in seen) == list(range(len(seen))) == list(range(len(result.records)))
