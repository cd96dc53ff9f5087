"""A remote interceptor: the name one registers with an emitter, on the connection it is asked over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from hookbus import codec
from hookbus.context import outgoing, prepare
from hookbus.errors import QuestionFailed, Undecodable
from hookbus.failures import Failure
from hookbus.questions import Answer, Judgement
from hookbus.signing import is_public_key
from hookbus.subjects import token

if TYPE_CHECKING:
    from hookbus.connection import Connection

#: How long :meth:`RemoteInterceptor.intercept` waits (AGENT-HOOKS-0.1 §7 RECOMMENDED).
DEFAULT_TIMEOUT_S: Final = 5.0


class RemoteInterceptor:
    """An interceptor whose workers answer over the bus.

    ``hookbus_client.BusEmitter`` asks it together with the others of an emission. Under any other emitter it is
    an ordinary interceptor: ``intercept`` asks, waits at most five seconds, and raises on every failure.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        hedge_after_s: float | None = None,
        keys: frozenset[str] | None = None,
    ) -> None:
        if hedge_after_s is not None and hedge_after_s <= 0:
            raise ValueError("hedge_after_s must be more than 0 seconds, or None for no second attempt")
        if keys is not None and not all(map(is_public_key, keys)):
            raise ValueError("keys are public nkeys (U…)")
        self.connection = connection
        self.name = name
        #: Safe to repeat, and asked a second time when it has not answered after so many seconds; None is never.
        self.hedge_after_s = hedge_after_s
        #: The subject token of the name.
        self.token = token(name)
        self._keys = keys

    @property
    def keys(self) -> frozenset[str] | None:
        """The public keys one of which must have signed an answer; None demands none.

        Those given, else those that the connection's trust file gives this name now.
        """
        if self._keys is None and (trust := self.connection.trust) is not None:
            return trust.of_interceptor(self.token)
        return self._keys

    def __repr__(self) -> str:
        return f"<remote interceptor {self.name!r}>"

    def intercept(self, context: dict[str, codec.Json], /) -> codec.Json:
        """Return an awaitable of a worker's verdict, as a wire dict.

        It raises TimeoutError after five seconds of silence and :class:`QuestionFailed` for every other failure.
        """
        return self._ask(context)

    async def _ask(self, context: dict[str, codec.Json]) -> codec.Json:
        done = asyncio.Event()
        sent = outgoing(prepare(context))
        question = self.connection.asker.ask(sent, [(self, DEFAULT_TIMEOUT_S)], _judge, done.set)[0]
        try:
            if question.outcome is None:
                async with asyncio.timeout(DEFAULT_TIMEOUT_S):
                    await done.wait()
        finally:
            self.connection.asker.give_up(question)
        outcome = question.outcome
        if isinstance(outcome, Answer):
            if outcome.judgement.valid:
                return outcome.judgement.verdict
            outcome = Failure.MALFORMED
        raise QuestionFailed(outcome or Failure.SILENT, self.name)


def _judge(body: bytes) -> Judgement:
    try:
        return Judgement(codec.parse_strictly(body), True)
    except Undecodable:
        return Judgement(None, False)
