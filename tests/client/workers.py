"""Workers that do only what a test decides, on a connection of their own."""

from __future__ import annotations

from collections.abc import Callable

from hookbus import Connection, Message, envelope, subjects

#: What a worker says to a question, or None for nothing.
Says = Callable[[str], bytes | None]


class Workers:
    """Serves names and keeps every question; answers by a function of the name, or when told to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.asked: list[Message] = []

    async def serve(self, *names: str, answer: Says = lambda _name: None, worker: str | None = None) -> None:
        """Serve *names*; with *worker*, as that worker, which repeats are directed to."""
        tenant = self.connection.settings.tenant
        for name in names:

            def receive(message: Message, name: str = name) -> None:
                self.asked.append(message)
                body = answer(name)
                if body is not None:
                    self.answer(message, body, worker=worker)

            self.connection.serve([subjects.questions(tenant, name)], name, receive, on_refused=print)
            if worker is not None:
                directed = subjects.directed(tenant, name, "*", "*", worker)
                self.connection.serve([directed], "", receive, on_refused=print)
        await self.connection.flush(timeout_s=5)

    def answer(
        self, message: Message, body: bytes, *, worker: str | None = None, error: str | None = None
    ) -> None:
        """Answer *message* with *body*, or with the error code *error*."""
        values = {envelope.ID: self.id_of(message)}
        if worker is not None:
            values[envelope.WORKER] = worker
        if error is not None:
            values |= {envelope.ERROR_CODE: error, envelope.ERROR: "SomeError"}
        self.connection.publish(message.reply, body, envelope.encode(values))

    @staticmethod
    def id_of(message: Message) -> str:
        """Return the ``Hb-Id`` of *message*."""
        return envelope.parse(message.headers).values[envelope.ID]

    def names(self) -> list[str]:
        """Return the interceptor of each question, in order."""
        return [message.subject.split(".")[4] for message in self.asked]
