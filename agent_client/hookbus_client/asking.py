"""Asking the interceptors of one emission, remote and in process, and the verdict of each slot.

All remote questions of one call leave in one write per connection and are awaited together on one future, with
one timer per distinct deadline: no task and no timer per question. Whatever goes wrong in a slot becomes that
slot's deny (AGENT-HOOKS-0.1 §6.3; contract, section 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from agent_hooks import HostError, Interceptor, Verdict

from hookbus import Failure, RemoteInterceptor, codec
from hookbus.connection import Connection
from hookbus.context import Outgoing
from hookbus.questions import Answer, Judgement, Question
from hookbus_client.failclosed import call_interceptor, deny
from hookbus_client.gate import NotAVerdict, verdict_of_bytes, verdict_of_object

#: How long a question to a remote interceptor may take where a host sets no timeout: silence has an end.
LONGEST_TIMEOUT_S: Final = 60.0


class Seat(NamedTuple):
    """One interceptor's place in an emission."""

    interceptor: Interceptor
    #: What messages call it: its registered name, or its place.
    label: str
    #: Its own timeout in seconds; None is unbounded for one in this process.
    timeout_s: float | None


async def ask_all(
    seats: Sequence[Seat], context: Outgoing, deadline: float | None, *, everybody: bool
) -> list[Verdict]:
    """Return the verdict of every seat, in order, about *context*; never raises but for cancellation.

    Each seat has its own timeout and none is waited for beyond *deadline*, an instant of the loop's clock.
    A remote seat is over at its deadline whatever the connection does. ``everybody`` asks past the breakers.
    """
    now = asyncio.get_running_loop().time()
    asked = _Asked()
    try:
        remote = _ask_remote(asked, seats, context, now, deadline, everybody)
        local = [index for index in range(len(seats)) if index not in remote]
        verdicts: dict[int, Verdict] = {}
        if len(local) == 1:
            verdicts[local[0]] = await _ask_local(seats[local[0]], context, now, deadline)
        elif local:
            async with asyncio.TaskGroup() as group:
                tasks = {i: group.create_task(_ask_local(seats[i], context, now, deadline)) for i in local}
            verdicts = {index: task.result() for index, task in tasks.items()}
        await asked.all_settled()
    finally:
        asked.close()
    verdicts.update((index, _settled(question, seats[index].label)) for index, question in remote.items())
    return [verdicts[index] for index in range(len(seats))]


class _Asked:
    """Questions awaited together."""

    def __init__(self) -> None:
        self._open: list[tuple[Connection, Question]] = []
        self._unsettled = 0
        self._done: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def settled_one(self) -> None:
        self._unsettled -= 1
        if self._unsettled == 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def expect(self, connection: Connection, questions: Sequence[Question], deadlines: Sequence[float]) -> None:
        """Wait for each of *questions* that is still open, at most until its deadline."""
        loop = asyncio.get_running_loop()
        by_deadline: dict[float, list[Question]] = {}
        for question, deadline in zip(questions, deadlines, strict=True):
            if question.outcome is None:
                self._open.append((connection, question))
                self._unsettled += 1
                by_deadline.setdefault(deadline, []).append(question)
        for deadline, due in by_deadline.items():
            self._timers.append(loop.call_at(deadline, _give_up, connection, due))

    def hedge(
        self, connection: Connection, question: Question, context: Outgoing, at: float, deadline: float
    ) -> None:
        """Repeat *question* at the instant *at*, if it is then still open and its deadline not reached."""
        if question.outcome is None and at < deadline:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_at(at, _repeat, connection, question, context, deadline))

    async def all_settled(self) -> None:
        if self._unsettled:
            self._done = asyncio.get_running_loop().create_future()
            await self._done

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for connection, question in self._open:
            if question.outcome is None:
                connection.asker.give_up(question)


def _give_up(connection: Connection, questions: Sequence[Question]) -> None:
    for question in questions:
        connection.asker.give_up(question)


def _repeat(connection: Connection, question: Question, context: Outgoing, deadline: float) -> None:
    connection.asker.repeat(question, context, deadline - asyncio.get_running_loop().time())


def _ask_remote(
    asked: _Asked, seats: Sequence[Seat], context: Outgoing, now: float, deadline: float | None, everybody: bool
) -> dict[int, Question]:
    by_connection: dict[Connection, list[tuple[int, RemoteInterceptor, float]]] = {}
    for index, seat in enumerate(seats):
        if isinstance(seat.interceptor, RemoteInterceptor):
            timeout_s = LONGEST_TIMEOUT_S if seat.timeout_s is None else seat.timeout_s
            budget_s = timeout_s if deadline is None else min(timeout_s, deadline - now)
            by_connection.setdefault(seat.interceptor.connection, []).append((index, seat.interceptor, budget_s))
    remote: dict[int, Question] = {}
    for connection, wanted in by_connection.items():
        questions = connection.asker.ask(
            context,
            [(interceptor, budget_s) for _, interceptor, budget_s in wanted],
            judged,
            asked.settled_one,
            past_breakers=everybody,
        )
        asked.expect(connection, questions, [now + budget_s for _, _, budget_s in wanted])
        for (index, interceptor, budget_s), question in zip(wanted, questions, strict=True):
            remote[index] = question
            if interceptor.hedge_after_s is not None:
                at = now + interceptor.hedge_after_s
                asked.hedge(connection, question, context, at, now + budget_s)
    return remote


def judged(body: bytes) -> Judgement:
    """Return what *body* comes to: its verdict, or the reserved reason it is refused with."""
    try:
        return Judgement(verdict_of_bytes(body), True)
    except NotAVerdict as error:
        return Judgement(error, False)


def _settled(question: Question, label: str) -> Verdict:
    outcome = question.outcome
    if isinstance(outcome, Answer):
        verdict, valid = outcome.judgement
        return verdict if valid else _malformed(verdict, label)
    return deny(outcome or question.silence, label)


async def _ask_local(seat: Seat, context: Outgoing, now: float, deadline: float | None) -> Verdict:
    timeout_s = seat.timeout_s
    if deadline is not None:
        left_s = deadline - asyncio.get_running_loop().time()
        timeout_s = left_s if timeout_s is None else min(timeout_s, left_s)
        if timeout_s <= 0:
            return deny(Failure.SILENT, seat.label)
    # A copy of its own, the same that a remote one gets (§7).
    copy: Any = codec.decode_context(context.body)
    returned, failed = await call_interceptor(seat.interceptor, copy, timeout_s, seat.label)
    if failed is not None:
        return failed
    try:
        return verdict_of_object(returned)
    except NotAVerdict as error:
        return _malformed(error, seat.label)


def _malformed(error: NotAVerdict, label: str) -> Verdict:
    if error.reason is HostError.VERDICT_INVALID:
        return deny(Failure.MALFORMED, label)
    return Verdict.host_error(error.reason, Failure.MALFORMED.sentence(label))
