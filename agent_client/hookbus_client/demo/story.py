"""The demo's story: a booking refused and mended, then the same booking denied because nobody answers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_hooks import CompositionConfig, InterceptionBlocked, InterceptionPoint
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

import hookbus
from hookbus import Connection, SettingsInvalid
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_client.agent import Agent, OpenAIModel, Session
from hookbus_client.demo.scripted_endpoint import scripted_endpoint
from hookbus_client.demo.travel import INSTRUCTIONS, PROMPT, SECOND_PROMPT, TravelDesk
from hookbus_client.demo.traveller import traveller
from hookbus_client.demo.view import View
from hookbus_client.demo.workers import until_nobody_answers, worker_process

_POLICY = "hookbus_client.demo.policy:TravelPolicy"
_REDACTOR = "hookbus_client.demo.redactor:DniRedactor"
_SCRIPTED = "scripted-traveller"


async def tell(view: View) -> None:
    """Play the whole story and show it on *view*; every process it started has ended when this returns.

    Raises :class:`hookbus.HookbusError` when a part does not come up, and
    :class:`hookbus_client.agent.AgentError` when a real model fails.
    """
    view.heading("A server, two interceptor workers, one agent: each a process of its own")
    async with _model(view) as model:
        with EmbeddedServer() as server:
            await _play(view, model, server.url)


async def _play(view: View, model: OpenAIModel, url: str) -> None:
    async with (
        worker_process("policy", _POLICY, url=url) as policy,
        worker_process("redactor", _REDACTOR, url=url) as redactor,
        hookbus.connect(url) as bus,
    ):
        for worker in policy, redactor:
            view.note(f"{worker.name} answers from process {worker.process.pid}")

        desk = TravelDesk()
        agent = Agent(
            model,
            _emitter(bus, view),
            agent_id="travel-agent",
            instructions=INSTRUCTIONS,
            tools=[desk.find_trains, desk.book_ticket],
            watchers=[view.event],
        )
        async with agent.session() as session:
            view.heading(
                "The policy wants a manager for first class; the redactor turns DNI 30.111.222 into DNI ***"
            )
            await _ask(session, PROMPT, view)
            _show_bookings(desk, view)

            view.heading("The policy worker is killed (SIGKILL), and the same seat is asked for again")
            await policy.kill()
            await until_nobody_answers(bus, policy.name)
            await _ask(session, SECOND_PROMPT, view)
            _show_bookings(desk, view)


def _emitter(bus: Connection, view: View) -> BusEmitter:
    """Return an emitter that asks both workers at once; the strictest verdict counts."""
    emitter = BusEmitter(composition=CompositionConfig.strictest())
    emitter.register(bus.interceptor("policy"), name="policy", at=[InterceptionPoint.PRE_TOOL_CALL])
    emitter.register(bus.interceptor("redactor"), name="redactor")
    emitter.set_record_sink(view.record)
    return emitter


async def _ask(session: Session, prompt: str, view: View) -> None:
    view.said("user", prompt)
    try:
        answer = (await session.run(prompt)).output
    except InterceptionBlocked as blocked:
        answer = f"(nothing: {blocked.interception_point.value} was denied)"
    view.said("agent", str(answer))


def _show_bookings(desk: TravelDesk, view: View) -> None:
    booked = ", ".join(f"train {booking.train} {booking.seat_class}" for booking in desk.bookings)
    view.note(f"Really booked so far: {booked or 'nothing'}")


@asynccontextmanager
async def _model(view: View) -> AsyncIterator[OpenAIModel]:
    """Yield the model that ``OPENAI_BASE_URL`` names, else a scripted one that the demo serves itself."""
    if base_url := os.environ.get("OPENAI_BASE_URL"):
        name = os.environ.get("OPENAI_MODEL")
        if not name:
            raise SettingsInvalid("OPENAI_MODEL is not set; it names a model that OPENAI_BASE_URL serves")
        view.note(f"the model is {name} at {base_url}")
        async with AsyncOpenAI(base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY") or "none") as client:
            yield OpenAIModel(client, name)
    else:
        view.note("the model is a script behind a loopback endpoint (set OPENAI_BASE_URL for a real one)")
        async with (
            scripted_endpoint({_SCRIPTED: traveller}) as base_url,
            # A proxy of the environment is not for the loopback interface.
            DefaultAsyncHttpxClient(trust_env=False) as http,
            AsyncOpenAI(base_url=base_url, api_key="none", http_client=http) as client,
        ):
            yield OpenAIModel(client, _SCRIPTED)
