"""The life of a worker: it serves, it drains, and it says why it ended."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import anyio
from agent_hooks import InterceptionPoint

from hookbus import Connection, HookbusError, envelope, subjects
from hookbus.connection import Serving
from hookbus_interceptors.calling import Calling, instance_of, intercept_of
from hookbus_interceptors.dispatch import Dispatch, Limits
from hookbus_interceptors.errors import InterceptorHangs, SubscriptionRefused
from hookbus_interceptors.service import EVERY_POINT, Service, Tally
from hookbus_interceptors.stalls import Stalls
from hookbus_interceptors.threads import Threads

logger = logging.getLogger("hookbus.worker")

#: How long one round trip to the server may take before a worker goes on without it.
ROUND_TRIP_S: Final = 5.0


class Worker:
    """Answers the questions put to interceptor *name*, on a connection that somebody else owns.

    ``async with worker`` serves inside the block; ``await worker.run()`` serves until it is drained. Once entered
    the server has taken the subscriptions; entering raises :class:`SubscriptionRefused` when it does not permit
    them. While the connection is down nothing is served; when it is back the worker serves again by itself.

    *interceptor* is a function of a context, an object with ``intercept(context)`` or a class of such objects;
    one that is not a coroutine function runs in threads. *points* are the interception points to serve, none for
    those of the interceptor's own ``points``, or all. At most *concurrency* questions run at a time; one more is
    answered ``429`` at once. ``default_budget_s`` is for questions that name no budget; ``skew_allowance_s`` is
    how far an agent's clock may be behind this one before its questions count as expired. Whatever the clocks
    say, a question also expires by its budget as counted here.

    Answers carry the version of the policy: the interceptor's ``policy_version`` as it is when the question
    starts, or what the interceptor then tells :func:`decided_by`, and *policy* where it says neither. An
    interceptor's ``lifespan(connection)``, an async context manager, is entered before the worker serves and left
    when it has drained. What its ``service_stats(point)`` returns stands in ``$SRV.STATS`` beside the counts of an
    endpoint; point is None for an endpoint of all points.

    Where the connection has a trust file, only questions signed by a key of their agent are answered, and each
    id once until it expires, unless the interceptor says ``repeat_aware = True`` of itself because it tells a
    repeat by ``question().id``. Where it has a signing key, every answer is signed. (Contract, section 5.)

    A question that expires is abandoned and its slot is free: its coroutine is cancelled, its thread left to
    itself. When as many calls hang as there are slots, the worker drains and raises :class:`InterceptorHangs`.

    A worker lives once. Raises :class:`NotAnInterceptor` and ValueError when it is made.
    """

    def __init__(
        self,
        connection: Connection,
        interceptor: object,
        *,
        name: str,
        points: Iterable[str] = (),
        concurrency: int = 64,
        policy: str | None = None,
        default_budget_s: float = 5.0,
        skew_allowance_s: float = 0.0,
    ) -> None:
        if not name:
            raise ValueError("a worker needs the name of its interceptor")
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        if default_budget_s <= 0 or skew_allowance_s < 0:
            raise ValueError("default_budget_s is above 0 and skew_allowance_s is not below it")
        self.name = name
        #: Which worker this is, as answers (``Hb-Worker``) and ``$SRV`` show it.
        self.id = secrets.token_hex(8)
        self._connection = connection
        self._interceptor = interceptor = instance_of(interceptor)
        self._intercept = intercept_of(interceptor)
        self._token = subjects.token(name)
        self._limits = Limits(concurrency, round(default_budget_s * 1000), round(skew_allowance_s * 1000))
        self._headers = {envelope.INTERCEPTOR: self._token, envelope.WORKER: self.id}
        if policy is not None and self._policy_version() is None:
            self._headers[envelope.POLICY] = policy
        envelope.encode(self._headers)
        self._repeat_aware = getattr(interceptor, "repeat_aware", False) is True
        points = list(points) or getattr(interceptor, "points", ())
        self._tallies = {point: self._tally(point) for point in _known(points) or ("*",)}
        self._error: HookbusError | None = None
        self._draining = asyncio.Event()
        self._entered = False

    @property
    def subjects(self) -> tuple[str, ...]:
        """What this worker subscribes to."""
        return tuple(tally.subject for tally in self.tallies)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What became of the questions so far, one for each of :attr:`subjects`."""
        return tuple(self._tallies.values())

    @property
    def _directed(self) -> list[str]:
        """Where second attempts for this very worker come in."""
        tenant = self._connection.settings.tenant
        return [subjects.directed(tenant, self._token, point, "*", self.id) for point in self._tallies]

    def _policy_version(self) -> object:
        return getattr(self._interceptor, "policy_version", None)

    def _tally(self, point: str) -> Tally:
        subject = subjects.questions(self._connection.settings.tenant, self._token, point)
        return Tally(EVERY_POINT if point == "*" else point, subject, self._token)

    # ---- life --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until :meth:`drain` is called, and return when every question taken has been answered.

        Raises :class:`SubscriptionRefused` and :class:`InterceptorHangs`, both after draining. Cancelling cuts
        short: no question is answered any more, running coroutines are cancelled, threads are left to
        themselves, and the agents' deadlines deny. Never waits for a call whose question has expired.
        """
        async with self:
            await self.drained()

    async def drained(self) -> None:
        """Wait until the worker is to end, because it was told to or because it cannot go on."""
        await self._draining.wait()

    def drain(self) -> None:
        """Take no new question, and let :meth:`run` return when the ones taken are answered.

        May be called twice, and before the worker runs; from the loop's own thread only.
        """
        self._draining.set()

    def _fail(self, error: HookbusError) -> None:
        if self._error is None:
            self._error = error
        self.drain()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise RuntimeError("this worker has lived before; make a new one")
        self._entered = True
        loop = asyncio.get_running_loop()
        self._threads = Threads(loop, f"interceptor {self._token}")
        self._stalls = Stalls(loop, lambda: self._connection.flush(timeout_s=60.0))
        self._dispatch = Dispatch(
            self._connection,
            Calling(self._intercept, loop, self._threads),
            self._stalls,
            interceptor=self._token,
            headers=self._headers,
            policy_version=self._policy_version,
            tallies=self._tallies,
            limits=self._limits,
            repeat_aware=self._repeat_aware,
            on_hanging=lambda calls: self._fail(InterceptorHangs(calls)),
        )
        service = Service(
            self._connection,
            name=self._token,
            id=self.id,
            metadata=self._metadata,
            tallies=self.tallies,
            offered=getattr(self._interceptor, "service_stats", None),
        )
        self._servings: tuple[Serving, ...] = ()
        self._held = AsyncExitStack()
        try:
            lifespan = getattr(self._interceptor, "lifespan", None)
            if lifespan is not None:
                await self._held.enter_async_context(lifespan(self._connection))
            self._servings = (
                self._connection.serve(
                    self.subjects,
                    self._token,
                    self._dispatch.receive,
                    on_refused=lambda subject: self._fail(SubscriptionRefused(subject, self._token)),
                ),
                self._connection.serve(self._directed, "", self._dispatch.receive, on_refused=_not_permitted),
                service.serve(_not_permitted),
            )
            # The server has taken or refused every subscription when this returns.
            await self._connection.flush(timeout_s=ROUND_TRIP_S)
            if self._error is not None:
                raise self._error
        except BaseException:
            await self._cut_short()
            raise
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.drain()
        if error is not None:
            return await self._cut_short()
        try:
            # In this order, or answers already computed are lost: nothing new, what runs, what is written.
            for serving in self._servings:
                await serving.drain(timeout_s=ROUND_TRIP_S)
            await self._dispatch.quiet()
            await self._connection.flush(timeout_s=ROUND_TRIP_S)
        except BaseException:
            await self._cut_short()
            raise
        self._end()
        await self._held.aclose()
        if self._error is not None:
            raise self._error

    async def _cut_short(self) -> None:
        self._dispatch.abandon_all()
        self._end()
        with anyio.move_on_after(ROUND_TRIP_S, shield=True):
            # Or the server goes on giving questions to this process instead of to another worker.
            for serving in self._servings:
                await serving.drain(timeout_s=ROUND_TRIP_S)
        # Outside of the scope above: the interceptor may have task groups of its own open.
        await self._held.aclose()

    def _end(self) -> None:
        self._stalls.close()
        self._threads.close()

    def _metadata(self) -> dict[str, str]:
        return {
            "hb-contract": envelope.VERSION,
            "hb-interceptor": self.name,
            "hb-tenant": self._connection.settings.tenant,
            "hb-policy": self._dispatch.policy_version,
        }


def _not_permitted(subject: str) -> None:
    logger.warning("the server does not permit %s", subject)


def _known(points: Iterable[str]) -> list[str]:
    try:
        return list(dict.fromkeys(InterceptionPoint(point).value for point in points))
    except ValueError as unknown:
        every = ", ".join(point.value for point in InterceptionPoint)
        raise ValueError(f"{unknown}; the interception points are {every}") from None
