"""Each contender as one coroutine function: one emission, allowed, or an exception."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, cast

import msgspec
from agent_hooks import CompositionConfig, CompositionProfile, InterceptionEmitter, Interceptor
from nats.aio.client import Client

import hookbus
from hookbus import Connection, RemoteInterceptor
from hookbus_client.bench.conversations import AGENT, body_of, context_of
from hookbus_client.bench.interceptors import allow
from hookbus_client.bench.plan import Case, Contender
from hookbus_client.bench.transports import Postbox, grpc_calls, webhooks
from hookbus_client.emitter import BusEmitter

Emission: TypeAlias = Callable[[], Awaitable[object]]
#: Makes the emission of a case.
Prepare: TypeAlias = Callable[[Case], Emission]

#: Records that an emitter keeps; an agent that lives on bounds them.
MAX_RECORDS: Final = 1000


class Spec(msgspec.Struct, frozen=True):
    """All that an agent process must know to be a contender."""

    contender: Contender
    url: str
    #: Where each interceptor is, by name; interceptors are asked in this order.
    addresses: dict[str, str]
    #: The files that signed questions and answers need; empty for unsigned ones.
    signing_key: str = ""
    trust: str = ""


class Permitted(Exception):
    """An interceptor that nobody serves did not deny."""


@asynccontextmanager
async def opened(spec: Spec) -> AsyncIterator[Prepare]:
    """Connect as *spec* says and yield what makes emissions."""
    match spec.contender:
        case Contender.SDK:
            yield lambda case: _emission(_of_sdk(case), case)
        case Contender.BARE:
            client = Client()
            await client.connect(spec.url)
            try:
                yield lambda case: _requests(client, list(spec.addresses.values()), case)
            finally:
                await client.close()
        case Contender.HTTP:
            async with webhooks(spec.addresses) as postbox:
                yield lambda case: _emission(_over(postbox, spec, case), case)
        case Contender.GRPC:
            async with grpc_calls(spec.addresses) as postbox:
                yield lambda case: _emission(_over(postbox, spec, case), case)
        case _:
            files = {"signing_key": spec.signing_key or None, "trust": spec.trust or None}
            async with hookbus.connect(spec.url, name="hookbus bench", **files) as bus:
                if spec.contender is Contender.ABSENT:
                    yield lambda case: _denial(_over(bus, spec, case), case)
                else:
                    yield lambda case: _emission(_over(bus, spec, case), case)


def _emission(emitter: InterceptionEmitter, case: Case) -> Emission:
    # A block raises, so only emissions that were allowed are ever counted.
    context = context_of(case.context)
    return lambda: emitter.emit(context)


def _denial(emitter: InterceptionEmitter, case: Case) -> Emission:
    context = context_of(case.context)

    async def deny() -> None:
        record = await emitter.emit_unchecked(context)
        if record.proceeds:
            raise Permitted

    return deny


def _requests(client: Client, subjects: list[str], case: Case) -> Emission:
    body = body_of(context_of(case.context)).body
    wanted = subjects[: case.interceptors]

    async def one() -> None:
        await client.request(wanted[0], body, timeout=5)

    async def in_turn() -> None:
        for subject in wanted:
            await client.request(subject, body, timeout=5)

    async def together() -> None:
        await asyncio.gather(*(client.request(subject, body, timeout=5) for subject in wanted))

    return one if len(wanted) == 1 else in_turn if case.sequential else together


def _of_sdk(case: Case) -> InterceptionEmitter:
    emitter = InterceptionEmitter(composition=_composition(case)).set_max_records(MAX_RECORDS)
    for number in range(case.interceptors):
        emitter.register(cast(Interceptor, allow), name=f"{AGENT}-{number}")
    return emitter


def _over(connection: Connection | Postbox, spec: Spec, case: Case) -> BusEmitter:
    emitter = BusEmitter(composition=_composition(case))
    emitter.set_max_records(MAX_RECORDS)
    # A postbox has all of a connection that asking uses.
    asked = cast(Connection, connection)
    for name in list(spec.addresses)[: case.interceptors]:
        emitter.register(
            asked.interceptor(name) if isinstance(asked, Connection) else RemoteInterceptor(asked, name)
        )
    return emitter


def _composition(case: Case) -> CompositionConfig:
    if case.sequential:
        return CompositionConfig(CompositionProfile.SEQUENTIAL_FIRST_DENY)
    return CompositionConfig(CompositionProfile.PARALLEL_STRICTEST)
