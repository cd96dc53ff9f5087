"""Interceptors that do as they are told: the same behaviour in this process and as a worker on the bus."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from hookbus import Connection, Message, codec, envelope, subjects


class Raises:
    """A behaviour: raise."""


class Hangs:
    """A behaviour: never answer."""


RAISES, HANGS = Raises(), Hangs()

#: What an interceptor does: a wire value that it returns, RAISES or HANGS.
Behaviour = Any


class Local:
    """An interceptor in this process. Keeps the contexts it was given."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.seen: list[dict[str, Any]] = []

    async def intercept(self, context: dict[str, Any]) -> Any:
        self.seen.append(context)
        if self.behaviour is RAISES:
            raise RuntimeError("secret words of an interceptor")
        if self.behaviour is HANGS:
            await asyncio.Event().wait()
        return self.behaviour


class Scripted:
    """Serves the names ``s0`` … as workers would, in this process but over *connection*, each with a behaviour."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.behaviours: list[Behaviour] = []
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def serve(self, count: int) -> None:
        for index in range(count):
            name = f"s{index}"
            self._connection.serve(
                [subjects.questions(self._connection.settings.tenant, name)],
                name,
                self._answer(index),
                on_refused=print,
            )

    def _answer(self, index: int) -> Callable[[Message], None]:
        def receive(message: Message) -> None:
            behaviour = self.behaviours[index]
            self.seen.append((f"s{index}", codec.decode_context(message.body)))
            asked = envelope.parse(message.headers).values
            told = {envelope.ID: asked[envelope.ID], envelope.INTERCEPTOR: f"s{index}"}
            if behaviour is HANGS:
                return
            if behaviour is RAISES:
                told |= {envelope.ERROR_CODE: "500", envelope.ERROR: "RuntimeError"}
                self._connection.publish(message.reply, b"", envelope.encode(told))
                return
            self._connection.publish(message.reply, json.dumps(behaviour).encode(), envelope.encode(told))

        return receive


async def until(condition: Callable[[], bool], *, attempts: int = 2000) -> None:
    """Let the loop run until *condition* holds; fails when it does not within a few seconds."""
    for _ in range(attempts):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("the condition did not come to hold")
