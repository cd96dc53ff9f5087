"""The compositor: asks by the declared profile and composes the verdicts (AGENT-HOOKS-0.1 §7.4 to §7.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from agent_hooks import (
    ALLOW,
    AgentContext,
    CompositionConfig,
    CompositionProfile,
    Decision,
    EnforcementMode,
    HostError,
    OnApproval,
    Verdict,
    VerdictSummary,
)

from hookbus import OutOfDomain
from hookbus.context import Outgoing, Prepared, outgoing, prepare
from hookbus_client.approval import Consultation, Seam, consult
from hookbus_client.asking import Seat, ask_all
from hookbus_client.composition import aggregate, summaries, united
from hookbus_client.transforms import TransformFailed, transformed, write_back

APPROVED: Final = "approval"
REJECTED: Final = "rejection"


class Outcome(msgspec.Struct, frozen=True):
    """What the composition of one emission came to, as its record tells it (§10.3)."""

    combined: Verdict
    decided_by: int | None = None
    verdicts: tuple[VerdictSummary, ...] = ()
    fold_truncated: bool | None = None
    resolved_by: str | None = None


class Emission:
    """One context on its way through its interceptors; ``context`` is the host's own, transformed in place."""

    def __init__(
        self,
        prepared: Prepared,
        sent: Outgoing,
        *,
        composition: CompositionConfig,
        mode: EnforcementMode,
        seats: Sequence[Seat],
        names: Sequence[str | None],
        seam: Seam,
        budget_s: float | None,
    ) -> None:
        self.context: AgentContext = prepared.context
        #: The context as it stands now.
        self.prepared = prepared
        #: Whether a transform has changed the context.
        self.transformed = False
        #: The context as it travels; None after a transform, until somebody is asked about it.
        self._sent: Outgoing | None = sent
        self._composition = composition
        self._mode = mode
        self._seats = seats
        self._names = names
        self._seam = seam
        #: What is left of the emission's total; time in the approval seam does not count.
        self._budget_left_s = budget_s
        self._verdicts: list[Verdict] = []

    async def compose(self) -> Outcome:
        """Ask and compose by the declared profile. Raises nothing but cancellation."""
        if not self._seats:
            return Outcome(
                Verdict.host_error(HostError.NO_INTERCEPTOR, "no interceptor is registered at this point")
            )
        match self._composition.profile:
            case CompositionProfile.SEQUENTIAL_FIRST_DENY:
                return await self._first_deny()
            case CompositionProfile.SEQUENTIAL_RUN_ALL:
                return await self._run_all()
        return await self._aggregate(await self._ask(self._seats))

    # ---- the profiles ----------------------------------------------------------------------------

    async def _first_deny(self) -> Outcome:
        pool: list[Verdict] = []
        last_transform: tuple[Verdict, int] | None = None
        resolved_by: str | None = None
        for index, seat in enumerate(self._seats):
            verdict = await self._ask_next(seat)
            pool.append(verdict)
            if verdict.decision is Decision.DENY:
                consultation = await self._consult(verdict)
                if consultation is None:
                    return self._end(united(verdict, pool), index, index, resolved_by)
                if not consultation.lifts:
                    pool.append(consultation.verdict)
                    return self._end(
                        united(consultation.verdict, pool), _asked_about(index, consultation), index, REJECTED
                    )
                resolved_by = APPROVED
                pool.append(consultation.verdict)
                verdict = self._applied(consultation.verdict)
                if not verdict.decision.permits:
                    return self._end(united(verdict, pool), None, index, resolved_by)
                if self._composition.on_approval is OnApproval.STOP:
                    return self._end(united(verdict, pool), index, index, resolved_by)
            elif verdict.decision is Decision.TRANSFORM:
                verdict = self._applied(verdict)
                if not verdict.decision.permits:
                    return self._end(united(verdict, pool), None, index, resolved_by)
            if verdict.decision is Decision.TRANSFORM:
                last_transform = verdict, index
        combined, decided_by = last_transform or (ALLOW, None)
        return self._end(united(combined, pool), decided_by, len(self._seats) - 1, resolved_by)

    async def _run_all(self) -> Outcome:
        verdicts: list[Verdict] = []
        for index, seat in enumerate(self._seats):
            verdict = await self._ask_next(seat)
            if verdict.decision is Decision.TRANSFORM:
                applied = self._applied(verdict)
                verdicts.append(applied)
                if not applied.decision.permits:
                    truncated = True if index + 1 < len(self._seats) else None
                    warned = united(applied, [*verdicts, verdict])
                    return Outcome(warned, None, summaries(verdicts, self._names), truncated)
            else:
                verdicts.append(verdict)
        return await self._aggregate(verdicts)

    async def _aggregate(self, verdicts: list[Verdict]) -> Outcome:
        combined, decided_by = aggregate(self._composition, verdicts)
        told = summaries(verdicts, self._names)
        if combined.decision is Decision.TRANSFORM and not self._composition.profile.is_sequential:
            applied = self._applied(combined)
            if applied.decision.permits:
                return Outcome(applied, decided_by, told)
            return Outcome(united(applied, verdicts), None, told)
        consultation = await self._consult(combined)
        if consultation is None:
            return Outcome(combined, decided_by, told)
        if not consultation.lifts:
            verdict = united(consultation.verdict, [*verdicts, consultation.verdict])
            return Outcome(verdict, _asked_about(decided_by, consultation), told, None, REJECTED)
        applied = self._applied(consultation.verdict)
        verdict = united(applied, [*verdicts, consultation.verdict])
        return Outcome(verdict, decided_by if applied.decision.permits else None, told, None, APPROVED)

    def _end(self, combined: Verdict, decided_by: int | None, last: int, resolved_by: str | None) -> Outcome:
        told = summaries(self._verdicts, self._names)
        return Outcome(combined, decided_by, told, last + 1 < len(self._seats), resolved_by)

    # ---- the steps -------------------------------------------------------------------------------

    async def _ask_next(self, seat: Seat) -> Verdict:
        (verdict,) = await self._ask((seat,))
        self._verdicts.append(verdict)
        return verdict

    async def _ask(self, seats: Sequence[Seat]) -> list[Verdict]:
        if self._sent is None:
            self._sent = outgoing(self.prepared)
        everybody = self._mode is EnforcementMode.EVALUATE_ONLY
        if self._budget_left_s is None:
            return await ask_all(seats, self._sent, None, everybody=everybody)
        clock = asyncio.get_running_loop().time
        began = clock()
        verdicts = await ask_all(seats, self._sent, began + self._budget_left_s, everybody=everybody)
        self._budget_left_s -= clock() - began
        return verdicts

    async def _consult(self, verdict: Verdict) -> Consultation | None:
        if self._mode is not EnforcementMode.ENFORCE:
            return None
        return await consult(self._seam, self.context, verdict)

    def _applied(self, verdict: Verdict) -> Verdict:
        """Apply the transform of *verdict*, or only check it in ``evaluate_only`` (§8).

        Returns *verdict*, or the deny that a transform which cannot be applied becomes.
        """
        if verdict.transform is None:
            return verdict
        try:
            target = transformed(self.context, verdict.transform)
        except TransformFailed as error:
            return Verdict.host_error(error.reason, str(error))
        if self._mode is EnforcementMode.ENFORCE:
            write_back(self.context, target)
            self.transformed = True
            self._sent = None
            try:
                self.prepared = prepare(self.context)
            except OutOfDomain as error:
                return Verdict.host_error(HostError.CONTEXT_INVALID, error.why)
        return verdict


def _asked_about(index: int | None, consultation: Consultation) -> int | None:
    """Return whose deny the consultation was about; nobody's where the identity provider refused it (§10.3)."""
    refused = consultation.verdict.reason == HostError.CONTEXT_INVALID.value
    return None if refused else index
