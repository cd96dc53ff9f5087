"""A test client: it asks an interceptor as a worker would, without a bus.

    def test_tables_are_not_dropped():
        answer = TestClient(no_drops).pre_tool_call("drop_table", {"name": "users"})
        assert answer.reason == "db:no-drops" and not answer.permits

The context crosses as JSON, the interceptor is called by the worker's own code, and the verdict passes the gate of
the standard: what raises, hangs or returns anything else is a deny here as it is there.
"""

from __future__ import annotations

import asyncio
import contextvars
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, Unpack

from agent_hooks import (
    AgentContextBuilder,
    Decision,
    HostError,
    Transform,
    Verdict,
    Warning,
)

from hookbus import codec
from hookbus.codec import Json
from hookbus.subjects import token
from hookbus_interceptors.calling import Calling, instance_of, intercept_of
from hookbus_interceptors.current import CURRENT, POLICY, CurrentQuestion, header_text
from hookbus_interceptors.gate import gated
from hookbus_interceptors.threads import Outcome, Threads

R = TypeVar("R")


class Envelope(TypedDict, total=False):
    """What any question may say beside its own point."""

    session: str
    agent: str
    tenant: str
    actor: Mapping[str, str]
    budgets: Mapping[str, float]
    extensions: Mapping[str, Json]
    #: Source labels by the interceptor that gave them (§5.4).
    labels: Mapping[str, Iterable[str]]
    #: ``Hb-Id``; the same one again is a hedge.
    question_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host makes of the interceptor's answer."""

    #: The verdict in force; a failure is its ``host_error:*`` deny.
    verdict: Verdict
    #: What the action goes on with: the target, transformed where the verdict says so.
    target: Json
    #: What ``Hb-Policy`` would say.
    policy_version: str | None
    #: What the interceptor raised, with its traceback; None where it answered.
    error: BaseException | None = None

    @property
    def decision(self) -> Decision:
        """Allow, deny or transform."""
        return self.verdict.decision

    @property
    def permits(self) -> bool:
        """Whether the action proceeds."""
        return self.verdict.decision.permits

    @property
    def escalates(self) -> bool:
        """Whether it is a deny that a person may lift."""
        return self.verdict.is_liftable

    @property
    def reason(self) -> str | None:
        """The verdict's reason."""
        return self.verdict.reason

    @property
    def message(self) -> str | None:
        """The verdict's message."""
        return self.verdict.message

    @property
    def transform(self) -> Transform | None:
        """What is replaced, where something is."""
        return self.verdict.transform

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Recorded concerns."""
        return self.verdict.warnings

    @property
    def labels(self) -> tuple[str, ...]:
        """What the data that comes of the action is labelled with."""
        return self.verdict.result_labels


class Questions(ABC, Generic[R]):
    """A question of each point; every one takes the fields of :class:`Envelope` as keywords."""

    def __init__(self, interceptor: object, *, timeout_s: float = 5.0) -> None:
        self._interceptor = instance_of(interceptor)
        self._intercept = intercept_of(self._interceptor)
        self._timeout_s = timeout_s
        self._builders: dict[tuple[str, str], AgentContextBuilder] = {}

    @abstractmethod
    def ask(self, context: dict[str, Json], *, question_id: str | None = None) -> R:
        """Ask with a whole context."""

    def agent_startup(self, tools: Sequence[str] = (), **envelope: Unpack[Envelope]) -> R:
        """Ask whether an agent with these *tools* may start."""
        return self._ask(self._builder(envelope).agent_startup(tools_registered=list(tools)), envelope)

    def input(self, content: Json, role: str = "user", **envelope: Unpack[Envelope]) -> R:
        """Ask about what came in."""
        return self._ask(self._builder(envelope).input(content=content, role=role), envelope)

    def pre_model_call(
        self,
        messages: Sequence[Mapping[str, Json]],
        model: str = "test-model",
        tools: Sequence[Mapping[str, Json]] | None = None,
        **envelope: Unpack[Envelope],
    ) -> R:
        """Ask about a call of the model."""
        sent = [dict(message) for message in messages]
        told = None if tools is None else [dict(tool) for tool in tools]
        builder = self._builder(envelope)
        return self._ask(builder.pre_model_call(model_id=model, messages=sent, tools=told), envelope)

    def post_model_call(
        self,
        content: Json,
        tool_calls: Sequence[Mapping[str, Json]] = (),
        finish_reason: str = "stop",
        model: str = "test-model",
        usage: dict[str, int] | None = None,
        **envelope: Unpack[Envelope],
    ) -> R:
        """Ask about what the model answered."""
        context = self._builder(envelope).post_model_call(
            model_id=model,
            content=content,
            tool_calls=[dict(call) for call in tool_calls],
            finish_reason=finish_reason,
            usage=usage,
        )
        return self._ask(context, envelope)

    def pre_tool_call(
        self,
        name: str,
        args: Mapping[str, Json] | None = None,
        call_id: str = "call-1",
        **envelope: Unpack[Envelope],
    ) -> R:
        """Ask whether a tool may run with these arguments."""
        context = self._builder(envelope).pre_tool_call(call_id=call_id, name=name, args=dict(args or {}))
        return self._ask(context, envelope)

    def post_tool_call(
        self,
        name: str,
        args: Mapping[str, Json] | None = None,
        value: Json = None,
        is_error: bool = False,
        call_id: str = "call-1",
        **envelope: Unpack[Envelope],
    ) -> R:
        """Ask about what a tool returned."""
        context = self._builder(envelope).post_tool_call(
            call_id=call_id, name=name, args=dict(args or {}), value=value, is_error=is_error
        )
        return self._ask(context, envelope)

    def output(self, content: Json, **envelope: Unpack[Envelope]) -> R:
        """Ask about what the agent is about to say."""
        return self._ask(self._builder(envelope).output(content=content), envelope)

    def agent_shutdown(self, reason: str = "completed", **envelope: Unpack[Envelope]) -> R:
        """Ask about an agent that ends."""
        return self._ask(self._builder(envelope).agent_shutdown(reason=reason), envelope)

    def _builder(self, envelope: Envelope) -> AgentContextBuilder:
        key = envelope.get("agent", "test-agent"), envelope.get("session", "test-session")
        if key not in self._builders:
            agent, session = key
            self._builders[key] = AgentContextBuilder(agent_id=agent, framework="test", session_id=session)
        return self._builders[key]

    def _ask(self, context: dict[str, Json], envelope: Envelope) -> R:
        if "tenant" in envelope:
            context["tenant"] = {"id": envelope["tenant"]}
        if "actor" in envelope:
            context["actor"] = dict(envelope["actor"])
        if "budgets" in envelope:
            context["budgets"] = dict(envelope["budgets"])
        extensions = dict(envelope.get("extensions", {}))
        for interceptor, labels in envelope.get("labels", {}).items():
            namespace = interceptor.replace("-", "_")
            extensions[namespace] = {**extensions.get(namespace, {}), "source_labels": list(labels)}
        if extensions:
            context["extensions"] = extensions
        return self.ask(context, question_id=envelope.get("question_id"))

    async def _answer(self, context: dict[str, Json], question_id: str | None) -> Answer:
        """Return what a host would make of the interceptor's answer to *context*."""
        loop = asyncio.get_running_loop()
        body = codec.encode(context, codec.survey(context))
        context = codec.decode_context(body)
        question = CurrentQuestion(
            id=question_id or secrets.token_hex(16),
            interceptor="test",
            point=context["interception_point"],
            agent=token(context["agent"]["id"]),
            deadline_s=loop.time() + self._timeout_s,
        )
        variables = contextvars.copy_context()
        variables.run(self._set_out, question)
        threads = Threads(loop, "test client")
        ended: asyncio.Future[Outcome] = loop.create_future()
        call = Calling(self._intercept, loop, threads).start(
            codec.decode_context(body), variables, ended.set_result
        )
        try:
            done, _ = await asyncio.wait([ended], timeout=self._timeout_s)
        finally:
            threads.close()
        version = variables.get(POLICY)
        if not done:
            call.abandon()
            return Answer(Verdict.host_error(HostError.INTERCEPTOR_TIMEOUT), context["target"], version)
        outcome = ended.result()
        if outcome.error is not None:
            failed = Verdict.host_error(HostError.INTERCEPTOR_FAILED)
            return Answer(failed, context["target"], version, outcome.error)
        verdict, target = gated(outcome.body, context)
        return Answer(verdict, target, version)

    def _set_out(self, question: CurrentQuestion) -> None:
        CURRENT.set(question)
        POLICY.set(header_text(getattr(self._interceptor, "policy_version", None)))


class TestClient(Questions[Answer]):
    """Asks, waits, and returns the :class:`Answer`. For tests that are no coroutines.

    Each question has an event loop of its own: an interceptor that keeps something of a loop, such as a client of
    a service, is tested with :class:`AsyncTestClient`.
    """

    #: It is not a test, whatever pytest makes of its name.
    __test__ = False

    def ask(self, context: dict[str, Json], *, question_id: str | None = None) -> Answer:
        """Ask with a whole context."""
        return asyncio.run(self._answer(context, question_id))


class AsyncTestClient(Questions[Awaitable[Answer]]):
    """Asks on the running loop; each question is awaited."""

    def ask(self, context: dict[str, Json], *, question_id: str | None = None) -> Awaitable[Answer]:
        """Ask with a whole context."""
        return self._answer(context, question_id)
