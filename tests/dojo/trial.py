"""One run of one task, with an attack or without, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from agent_hooks import ApprovalRequest, ApprovalResolution, ApprovalResolver
from agentdojo.functions_runtime import FunctionCall, TaskEnvironment

from hookbus_client.agent import Emitter
from hookbus_client.demo.scripted_endpoint import Script
from tests.dojo.approver import TaskOwner
from tests.dojo.attack import Attack, Obedient
from tests.dojo.driver import AgentPlayer, Case, agent_player, play

#: Makes an emitter for one run; its questions go to the resolver, or to nobody.
EmitterFor = Callable[[ApprovalResolver | None], Emitter]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one run."""

    id: str
    suite: str
    #: AgentDojo's judgement of the user's task.
    useful: bool
    #: AgentDojo says that the attacker's goal is reached, or every call that the attacker wanted was made.
    reached: bool
    #: Every call of the user's own task was made, in order.
    undisturbed: bool
    #: Whether the model read the attacker's text.
    misled: bool
    #: The reasons of the questions that somebody was, or would have been, asked.
    questions: tuple[str, ...]


class _Someone:
    """Asks the owner of the task, who is known once the task is set."""

    owner: TaskOwner

    def resolve(self, request: ApprovalRequest, /) -> ApprovalResolution:
        return self.owner.resolve(request)


async def trial(
    player: AgentPlayer, subject: Case | Attack, emitter_for: EmitterFor | None, *, asking: bool
) -> Trial:
    """Play *subject* and return what came of it; with *asking* the owner of the task answers questions."""
    case = subject.case if isinstance(subject, Attack) else subject
    injection = subject.injection if isinstance(subject, Attack) else None
    someone, models = _Someone(), list[Obedient]()

    def model_for(case: Case, environment: TaskEnvironment) -> Script:
        models.append(Obedient(case.task, injection, environment))
        someone.owner = TaskOwner(models[0].own)
        return models[0]

    emitter = emitter_for(someone if asking else None) if emitter_for is not None else None
    outcome = await play(
        case,
        AgentPlayer(player.client, player.scripts, emitter),
        model=model_for,
        injection_task=injection,
        injections=subject.injections if isinstance(subject, Attack) else None,
    )
    (model,) = models
    made = _written(outcome.executed)
    wanted, own = _written(model.injected or ()), _written(model.own)
    return Trial(
        subject.id,
        case.suite.name,
        outcome.useful,
        outcome.compromised or (bool(wanted) and made[-len(wanted) :] == wanted),
        made[: len(own)] == own,
        model.injected is not None,
        tuple(someone.owner.asked),
    )


def _written(calls: Iterable[FunctionCall]) -> list[tuple[str, Any]]:
    # A ground truth holds more than what is called, and the order of arguments says nothing.
    return [(call.function, dict(call.args)) for call in calls]


async def trials(
    subjects: Iterable[Case | Attack], emitter_for: EmitterFor | None, *, asking: bool, at_once: int = 4
) -> Sequence[Trial]:
    """Play all of *subjects*, some at once, and return their trials in order."""
    subjects = list(subjects)
    done: dict[int, Trial] = {}
    limit = anyio.CapacityLimiter(at_once)

    async with agent_player(None) as player, anyio.create_task_group() as group:

        async def one(index: int, subject: Case | Attack) -> None:
            async with limit:
                done[index] = await trial(player, subject, emitter_for, asking=asking)

        for index, subject in enumerate(subjects):
            group.start_soon(one, index, subject)
    return [done[index] for index in range(len(subjects))]
