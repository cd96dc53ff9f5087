"""Asking both interceptors about each captured context, and comparing what they say.

A replayed question is a question and nothing else. It has an id, a reply subject and a session of its own, and an
agent of its own unless told otherwise; its answer comes to this process, which runs nothing, records nothing and
asks nobody to approve.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import anyio
import msgspec
from agent_hooks import InterceptionPoint

from hookbus import Connection, Failure, OutOfDomain, QuestionFailed, RemoteInterceptor
from hookbus.codec import Json
from hookbus.context import outgoing, prepare
from hookbus.questions import Answer, Judgement, Question
from hookbus.subjects import token
from hookbus_interceptors.capture.errors import RecordUnknown
from hookbus_interceptors.capture.reading import Captured, Place, Record
from hookbus_interceptors.replay.outcome import Change, Outcome, change, of_body, of_failure, told
from hookbus_interceptors.replay.sessions import identifier

#: With these there is no point in going on.
_HOPELESS: Final = (Failure.BUS_DOWN, Failure.REFUSED)


class Terms(msgspec.Struct, frozen=True):
    """Who is asked, by whom, and how."""

    current: str
    candidate: str
    #: The agent that asks; None keeps each context's own, whose credentials and state are then used.
    agent: str | None = "replay"
    #: Sessions that are replayed at the same time; each asks one question after the other.
    concurrency: int = 8
    timeout_s: float = 5.0


class Compared(msgspec.Struct, frozen=True):
    """One record and what both made of it; nothing of it is payload."""

    record: str
    point: str
    #: The tool's name, empty where there is none.
    tool: str
    current: Outcome
    candidate: Outcome
    change: Change | None


class Replay:
    """Asks both about records of *captured*, over *bus*, which somebody else has entered."""

    def __init__(self, bus: Connection, captured: Captured, terms: Terms) -> None:
        self._bus = bus
        self._captured = captured
        self._terms = terms
        self._interceptors = RemoteInterceptor(bus, terms.current), RemoteInterceptor(bus, terms.candidate)
        #: Sessions that no live one shares: a budget or a window of theirs is not used up.
        self._run = secrets.token_hex(8)
        self._hopeless: QuestionFailed | None = None
        #: Who has answered at all, and who does not serve which point.
        self._answered: set[int] = set()
        self._absent: set[tuple[int, str]] = set()
        #: The versions of the policy that answered: the current one's and the candidate's.
        self.policies: tuple[set[str], set[str]] = (set(), set())

    async def run(self, sessions: Iterable[list[Place]], on_compared: Callable[[Compared], None]) -> None:
        """Tell *on_compared* of every record. Each session is asked in order, several sessions at a time.

        Raises :class:`QuestionFailed` when an interceptor may not or cannot be asked, and at the end when one was
        absent at every point.
        """
        waiting = iter(sessions)
        async with anyio.create_task_group() as tasks:
            for _ in range(self._terms.concurrency):
                tasks.start_soon(self._take, waiting, on_compared, tasks.cancel_scope)
        if self._hopeless is not None:
            raise self._hopeless
        for index, _ in self._absent:
            if index not in self._answered:
                raise QuestionFailed(Failure.ABSENT, self._interceptors[index].name)

    async def _take(
        self, waiting: Iterator[list[Place]], on_compared: Callable[[Compared], None], scope: anyio.CancelScope
    ) -> None:
        for session in waiting:
            for place in session:
                try:
                    on_compared(await self._compare(place))
                except QuestionFailed as failed:
                    self._hopeless = failed
                    scope.cancel()
                    return

    async def _compare(self, place: Place) -> Compared:
        try:
            record = self._captured.at(place)
        except RecordUnknown:
            # Retention took it since it was listed.
            gone = Outcome("gone", False, answered=False)
            return Compared(place.id, "", "", gone, gone, Change.UNANSWERED)
        current, candidate = await self._ask(record)
        call = record.context.get("tool_call")
        return Compared(
            record=place.id,
            point=told(record.context.get("interception_point")),
            tool=told(call.get("name")) if isinstance(call, dict) else "",
            current=current.without_payload(),
            candidate=candidate.without_payload(),
            change=change(current, candidate),
        )

    async def _ask(self, record: Record) -> tuple[Outcome, Outcome]:
        context = self._readdressed(record.context)
        try:
            # It goes into a subject: nothing but a point of the standard may.
            InterceptionPoint(context["interception_point"])
            sent = outgoing(prepare(context))
        except (KeyError, ValueError, OutOfDomain):
            unsendable = of_failure(Failure.UNSENDABLE)
            return unsendable, unsendable
        there = [index for index in (0, 1) if (index, sent.point) not in self._absent]
        asked = [(self._interceptors[index], self._terms.timeout_s) for index in there]
        settled = asyncio.Event()
        questions = self._bus.asker.ask(sent, asked, partial(_judge, context), settled.set, past_breakers=True)
        try:
            with anyio.move_on_after(self._terms.timeout_s):
                while any(question.outcome is None for question in questions):
                    await settled.wait()
                    settled.clear()
        finally:
            for question in questions:
                self._bus.asker.give_up(question)
        outcomes = [of_failure(Failure.ABSENT)] * 2
        for index, question in zip(there, questions, strict=True):
            outcomes[index] = self._outcome(index, sent.point, question)
        return outcomes[0], outcomes[1]

    def _readdressed(self, context: dict[str, Json]) -> dict[str, Json]:
        """Return *context* as this run asks it: in a session, and by an agent and in a tenant, of its own."""
        session = {"id": f"replay-{self._run}-{identifier(context, 'session')}"}
        readdressed = {**context, "session": {**_block(context, "session"), **session}}
        if self._terms.agent is not None:
            readdressed["agent"] = {**_block(context, "agent"), "id": self._terms.agent}
        tenant = self._bus.settings.tenant
        if "tenant" in context and token(identifier(context, "tenant")) != tenant:
            readdressed["tenant"] = {**_block(context, "tenant"), "id": tenant}
        return readdressed

    def _outcome(self, index: int, point: str, question: Question) -> Outcome:
        outcome = question.outcome
        if isinstance(outcome, Answer):
            self._answered.add(index)
            if outcome.policy is not None:
                self.policies[index].add(told(outcome.policy))
            judged: Outcome = outcome.judgement.verdict
            return judged
        failure = outcome or Failure.SILENT
        if failure in _HOPELESS:
            raise QuestionFailed(failure, self._interceptors[index].name)
        if failure is Failure.ABSENT:
            # Workers serve the points of their interceptor: whoever is not there for one is not asked there again.
            self._absent.add((index, point))
        else:
            self._answered.add(index)
        return of_failure(failure)


def _judge(context: dict[str, Json], body: bytes) -> Judgement:
    return Judgement(of_body(body, context), True)


def _block(context: dict[str, Json], name: str) -> dict[str, Json]:
    block = context.get(name)
    return block if isinstance(block, dict) else {}
