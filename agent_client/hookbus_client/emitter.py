"""The emitter: the SDK's ``InterceptionEmitter`` with a compositor that asks over the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from agent_hooks import (
    JCS_SHA256,
    AgentContext,
    ApprovalResolver,
    CompositionConfig,
    EnforcementMode,
    HostError,
    HostRegistry,
    IdentityProvider,
    InterceptionEmitter,
    InterceptionPoint,
    InterceptionRecord,
    Interceptor,
    ResolvedDeclaration,
    Verdict,
)
from agent_hooks.emitter import DEFAULT_TIMEOUT

from hookbus import Failure, OutOfDomain, RemoteInterceptor
from hookbus.context import outgoing, prepare
from hookbus_client.approval import Seam
from hookbus_client.asking import Seat
from hookbus_client.composition import replaced, resolved
from hookbus_client.compositor import Emission, Outcome
from hookbus_client.contexts import check_envelope, point_of
from hookbus_client.declaration import budget_of
from hookbus_client.identity import identity, provider_name
from hookbus_client.record import record_of

_INHERITED: Final = object()


class BusEmitter(InterceptionEmitter):
    """Emits contexts to interceptors over the bus and in this process, and denies on silence.

    A drop-in for the SDK's emitter: the same constructor keywords, methods, records and exceptions, so a host
    written for one takes the other. What it adds: ``budget_s``, the total time one emission may take its
    interceptors (the approval seam has its own timeout and does not count); ``timeout_s`` for one
    registration; and that remote interceptors of a parallel profile are asked at the same time.

    Every emission ends by its deadline with exactly one record, also when it is cancelled. Records equal those
    of the SDK's emitter for the same verdicts; where the SDK departs from the specification, this follows the
    specification (``docs/divergences.md``).
    """

    __slots__ = ("_budget_s", "_places", "_resolved_composition")

    def __init__(
        self,
        *,
        mode: EnforcementMode = EnforcementMode.ENFORCE,
        resolver: ApprovalResolver | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        composition: CompositionConfig | None = None,
        identity_provider: str | IdentityProvider | None = JCS_SHA256,
        budget_s: float | None = None,
    ) -> None:
        super().__init__(
            mode=mode,
            resolver=resolver,
            timeout=timeout,
            composition=composition,
            identity_provider=identity_provider,
        )
        if budget_s is not None and budget_s <= 0:
            raise ValueError("budget_s must be more than 0 seconds, or None for no total")
        self._budget_s = budget_s
        self._resolved_composition = resolved(self._composition)
        #: The seats and names at each point, made when first needed.
        self._places: dict[InterceptionPoint | None, tuple[list[Seat], list[str | None]]] = {}

    @classmethod
    def _from_resolved(cls, declared: ResolvedDeclaration, registry: HostRegistry) -> BusEmitter:
        emitter = super()._from_resolved(declared, registry)
        assert isinstance(emitter, BusEmitter)
        emitter._budget_s = budget_of(declared)
        return emitter

    # ---- configuration ---------------------------------------------------------------------------

    def register(
        self,
        interceptor: Interceptor,
        name: str | None = None,
        at: Iterable[InterceptionPoint | str] | None = None,
        *,
        timeout_s: Any = _INHERITED,
    ) -> BusEmitter:
        """Register *interceptor*, remote (``bus.interceptor("policy")``) or in this process.

        A remote one is recorded under its own name unless *name* is given. ``timeout_s`` overrides the
        emitter's timeout for it; None is unbounded, which for a remote one means 60 seconds.
        """
        if name is None and isinstance(interceptor, RemoteInterceptor):
            name = interceptor.name
        super().register(interceptor, name, at)
        if timeout_s is not _INHERITED:
            self._interceptors[-1].inherit_timeout = False
            self._interceptors[-1].timeout = timeout_s
        self._places.clear()
        return self

    def set_composition(self, composition: CompositionConfig) -> BusEmitter:
        """Declare the composition profile for the emissions to come (§7.1). Refused when sealed (§7.7.7)."""
        super().set_composition(composition)
        self._resolved_composition = resolved(composition)
        return self

    # ---- emission --------------------------------------------------------------------------------

    async def emit_unchecked(self, ctx: AgentContext) -> InterceptionRecord:
        """Run the emission and return its record without raising; see :meth:`emit`, which raises on a block.

        The caller must look at ``record.proceeds``. When the calling task is cancelled, a denying record is
        left and the cancellation goes on (§6.3, §12.2).
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        seats, names = self._seats_at(point_of(ctx))
        try:
            check_envelope(ctx)
            prepared = prepare(ctx)
            input_identity = identity(self._identity, prepared)
            sent = outgoing(prepared)
            _check_size(seats, len(sent.body))
        except OutOfDomain as error:
            invalid = Verdict.host_error(
                HostError.CONTEXT_INVALID, f"{Failure.UNSENDABLE.sentence('')}: {error.why}"
            )
            return self._append(self._record(ctx, Outcome(invalid), None, None, len(seats)))
        emission = Emission(
            prepared,
            sent,
            composition=self._resolved_composition,
            mode=self._mode,
            seats=seats,
            names=names,
            seam=Seam(self._resolver, self._approval_redactor, self._resolver_timeout, self._identity),
            # What preparing a large context took counts too.
            budget_s=None if self._budget_s is None else self._budget_s - (clock() - began),
        )
        try:
            outcome = await emission.compose()
        except asyncio.CancelledError:
            cancelled = Outcome(Verdict.host_error(HostError.INTERCEPTOR_FAILED, "CancelledError"))
            self._finish(emission, cancelled, input_identity, len(seats))
            raise
        return self._finish(emission, outcome, input_identity, len(seats))

    def record_host_denial(
        self, context: AgentContext, error: HostError, message: str | None = None
    ) -> InterceptionRecord:
        """Record that the host itself denies *context*, which no interceptor was asked about.

        For what the host decides alone, such as the tail of a stream that cannot be evaluated
        (``host_error:streaming_unsupported``, §12.1). *message* holds no payload.
        """
        denial = Outcome(Verdict.host_error(error, message))
        try:
            check_envelope(context)
            found = identity(self._identity, prepare(context))
        except OutOfDomain:
            found = None
        registered = len(self._seats_at(point_of(context))[0])
        return self._append(self._record(context, denial, found, found, registered))

    def _finish(
        self, emission: Emission, outcome: Outcome, input_identity: str | None, registered: int
    ) -> InterceptionRecord:
        context, enforced_identity = emission.context, input_identity
        if emission.transformed:
            # A transform can lead out of what a context may be, or out of what can be identified; then nothing
            # proceeds on it, and an invalid envelope has no identity at all (§10.2, §10.3).
            enforced_identity = None
            try:
                check_envelope(context)
            except OutOfDomain as error:
                input_identity = None
                outcome = _invalidated(outcome, error)
            else:
                try:
                    enforced_identity = identity(self._identity, emission.prepared)
                except OutOfDomain as error:
                    if outcome.combined.decision.permits:
                        outcome = _invalidated(outcome, error)
        return self._append(self._record(context, outcome, input_identity, enforced_identity, registered))

    def _record(
        self,
        context: AgentContext,
        outcome: Outcome,
        input_identity: str | None,
        enforced_identity: str | None,
        registered: int,
    ) -> InterceptionRecord:
        return record_of(
            context,
            outcome,
            mode=self._mode,
            composition=self._resolved_composition,
            provider=provider_name(self._identity),
            input_identity=input_identity,
            enforced_identity=enforced_identity,
            registered=registered,
            declaration=self._declaration.version if self._declaration is not None else None,
        )

    def _seats_at(self, point: InterceptionPoint | None) -> tuple[list[Seat], list[str | None]]:
        place = self._places.get(point)
        if place is None:
            bound = [b for b in self._interceptors if b.runs_at(point)]
            names = [b.name for b in bound]
            seats = [
                Seat(
                    b.interceptor,
                    b.name or f"interceptor {index}",
                    self._timeout if b.inherit_timeout else b.timeout,
                )
                for index, b in enumerate(bound)
            ]
            place = self._places[point] = seats, names
        return place


def _invalidated(outcome: Outcome, error: OutOfDomain) -> Outcome:
    """Return *outcome* as the deny that a transformed context outside its domain becomes; warnings stay (§5.1)."""
    if outcome.combined.reason == HostError.CONTEXT_INVALID.value:
        return outcome
    invalid = Verdict.host_error(HostError.CONTEXT_INVALID, f"the transformed context is invalid: {error.why}")
    warned = replaced(invalid, warnings=outcome.combined.warnings)
    return msgspec.structs.replace(outcome, combined=warned, decided_by=None)


def _check_size(seats: list[Seat], body_bytes: int) -> None:
    """Raise :class:`OutOfDomain` if some remote seat's connection cannot carry ``body_bytes`` (section 4)."""
    for seat in seats:
        if isinstance(seat.interceptor, RemoteInterceptor):
            connection = seat.interceptor.connection
            if connection.is_connected and body_bytes > connection.max_context_bytes:
                raise OutOfDomain(f"{body_bytes} bytes are more than the connection carries")
