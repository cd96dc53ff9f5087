"""Interceptors behind the bus, for one test or one vector: they answer from workers on their own connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, ClassVar, Self
from uuid import uuid4

from agent_hooks import HostRegistry, IdentityProvider
from agent_hooks.ctk import RunOutcome, RunRecord, redact_paths

import hookbus
import hookbus_interceptors
from hookbus_client import BusEmitter


class Served:
    """One interceptor as its worker holds it; ``questions`` are the ids of all that it was asked."""

    def __init__(self, interceptor: Any) -> None:
        self._interceptor = interceptor
        self.questions: list[str] = []

    def intercept(self, context: dict[str, Any]) -> Any:
        # Raises outside a worker: an interceptor that was called in the agent's own hands fails its vector.
        self.questions.append(hookbus_interceptors.question().id)
        return self._interceptor.intercept(context)


class Deployment:
    """A place on the bus that nobody else uses: a tenant, the agent's connection, and workers.

    Configure an emitter first, then enter; inside the block every interceptor is answering.
    """

    #: The server where none is given; None is what the environment says.
    url: ClassVar[str | None] = None

    def __init__(self, url: str | None = None) -> None:
        url, tenant = url or self.url, f"t{uuid4().hex}"
        self.bus = hookbus.connect(url, tenant=tenant)
        self._workers_bus = hookbus.connect(url, tenant=tenant)
        self._served: dict[str, Served] = {}
        self._open = AsyncExitStack()

    def remote(self, name: str, interceptor: Any) -> hookbus.RemoteInterceptor:
        """Give *interceptor* a worker under *name*, and return what the agent binds in its place."""
        self._served[name] = Served(interceptor)
        return self.bus.interceptor(name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self.bus)
            bus = await opening.enter_async_context(self._workers_bus)
            for name, served in self._served.items():
                await opening.enter_async_context(hookbus_interceptors.Worker(bus, served, name=name))
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(type_, error, trace)

    def record(
        self, emitter: BusEmitter, outcome: RunOutcome, final: Any, invoked: list[dict[str, Any]]
    ) -> RunRecord:
        """What the kit assesses; raises AssertionError unless every verdict in it was asked for over the bus."""
        asked = len({question for served in self._served.values() for question in served.questions})
        assert asked == sum(len(record.verdicts) for record in emitter.results)
        return RunRecord(
            outcome=outcome,
            final_output=final,
            tool_invocations=invoked,
            identities=[(record.input_identity, record.enforced_identity) for record in emitter.results],
            records=[record.to_wire() for record in emitter.results],
        )

    # ---- the two ways to an emitter --------------------------------------------------------------

    def declared(self, document: dict[str, Any], registry: HostRegistry) -> BusEmitter:
        """The emitter of a host declaration, each binding's interceptor deployed under the binding's id.

        Raises DeclarationError on refusal.
        """
        for kind, build in registry._kinds.items():
            registry._kinds[kind] = self._behind_the_bus(build)
        return BusEmitter.from_declaration_value(document, registry)

    def _behind_the_bus(self, build: Callable[..., Any]) -> Callable[..., Any]:
        return lambda config, binding: self.remote(binding.id, build(config, binding))

    def configured(
        self, interceptors: list[Any], *, identity_provider: str | None, redact: list[str] | None, **settings: Any
    ) -> BusEmitter:
        """The emitter of a vector that states its configuration in fields."""
        emitter = BusEmitter(identity_provider=provider(identity_provider), **settings)
        if redact:
            emitter.set_approval_redactor(lambda context: redact_paths(context, redact))
        for index, interceptor in enumerate(interceptors):
            name = f"interceptor-{index}"
            emitter.register(self.remote(name, interceptor), name=name)
        return emitter


def provider(name: str | None) -> str | IdentityProvider | None:
    """The identity provider that a vector names; ``ctk-fault`` is the one that always fails (§10.1)."""
    if name != "ctk-fault":
        return name

    def fault(_: dict[str, Any]) -> str:
        raise RuntimeError("ctk scripted provider fault")

    return IdentityProvider("ctk-fault", fault)
