"""Answers bent on their way out of a worker: late, twice, to the wrong question, rubbish, malformed, oversize.

Whatever a bent answer permits, it permits without a proof, so an emission that believes one is caught. An answer
that is only late is an honest one: it was given, and may not count any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from hookbus import BusDown, Connection, Settings, envelope
from tests.chaos.proofs import forged

#: Later than every deadline of the soak.
LATE_S: Final = 1.0
#: The reason of the first of two answers that contradict each other.
CONTRADICTED: Final = "contradicted"
#: Above the payload limit of the server, which ends a connection that exceeds it.
OVERSIZE_BYTES: Final = 1_100_000

#: Not one of these is a verdict.
RUBBISH: Final = (
    b"",
    b"allow",
    b"null",
    b"{}",
    b"[]",
    b"\xff\xfe",
    b'{"decision":"ALLOW"}',
    b'{"decision":["allow"]}',
    b'{"decision":"allow"',
    b'{"decision":"allow"}{"decision":"allow"}',
    b'\xef\xbb\xbf{"decision":"allow"}',
    b'{"decision":"deny","decision":"allow"}',
    b'{"decision":"allow","message":NaN}',
    b'{"decision":"allow","evidence":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
)
#: Not one of these is a NATS/1.0 header block.
MALFORMED_HEADERS: Final = (
    b"NATS/1.0",
    b"NATS/1.0\r\n",
    b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0\r\nHb-Id\r\n\r\n",
    b"NATS/1.0\r\nHb-Id: \xff\xfe\r\n\r\n",
    b"NATS/1.0\r\nHb-Id: a\r\nHb-Id: b\r\n\r\n",
    b"NATS/1.0\r\nHb-Worker: a\rHb-Id: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"\r\n\r\n",
)


class Reply(NamedTuple):
    """An honest answer, about to be sent."""

    subject: str
    body: bytes
    headers: bytes


class BendingConnection(Connection):
    """A worker's connection that bends some of its answers, in the way and the share it is told to."""

    def __init__(self, settings: Settings, interceptor: str, worker: str, chance: random.Random) -> None:
        super().__init__(settings)
        self._interceptor = interceptor
        self._worker = worker
        self._chance = chance
        self._others: deque[Reply] = deque(maxlen=8)
        self._bend: Callable[[Reply], None] | None = None
        self._share = 0.0

    def bend(self, how: str | None, share: float = 1.0) -> None:
        """Bend that *share* of the verdicts from now on; None sends all as they are."""
        self._bend = None if how is None else getattr(self, f"_{how}")
        self._share = share

    def publish(self, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> None:
        bend = self._bend
        if bend is None or not body or ".ans." not in subject or self._chance.random() >= self._share:
            return super().publish(subject, body, headers, reply)
        bend(Reply(subject, body, headers))
        self._others.append(Reply(subject, body, headers))

    def _allow(self) -> bytes:
        label = forged("allow", self._interceptor, self._worker)
        return json.dumps({"decision": "allow", "result_labels": [label]}).encode()

    def _headed(self, reply: Reply, name: str, value: str) -> bytes:
        return envelope.encode({**envelope.parse(reply.headers).values, name: value})

    @staticmethod
    def _id_of(reply: Reply) -> str | None:
        return envelope.parse(reply.headers).values.get(envelope.ID)

    def _late(self, reply: Reply) -> None:
        asyncio.get_running_loop().call_later(LATE_S, self._publish_if_up, reply)

    def _publish_if_up(self, reply: Reply) -> None:
        with contextlib.suppress(BusDown):
            super().publish(*reply)

    def _twice(self, reply: Reply) -> None:
        if self._chance.random() < 0.3:
            super().publish(*reply)
            super().publish(*reply)
            return
        deny = json.dumps({"decision": "deny", "reason": CONTRADICTED}).encode()
        super().publish(reply.subject, deny, reply.headers)
        super().publish(reply.subject, self._allow(), reply.headers)

    def _wrong_question(self, reply: Reply) -> None:
        # The answer to this one goes out as the answer to another, which may be open still: not to a second
        # attempt of the same question, which it would be an answer to.
        own = self._id_of(reply)
        others = [other.subject for other in self._others if self._id_of(other) != own]
        subject = self._chance.choice(others) if others else f"{reply.subject}000"
        super().publish(subject, self._allow(), reply.headers)

    def _wrong_id(self, reply: Reply) -> None:
        super().publish(reply.subject, self._allow(), self._headed(reply, envelope.ID, os.urandom(16).hex()))

    def _wrong_interceptor(self, reply: Reply) -> None:
        super().publish(reply.subject, self._allow(), self._headed(reply, envelope.INTERCEPTOR, "another"))

    def _rubbish(self, reply: Reply) -> None:
        super().publish(reply.subject, self._chance.choice(RUBBISH), reply.headers)

    def _malformed_headers(self, reply: Reply) -> None:
        super().publish(reply.subject, self._allow(), self._chance.choice(MALFORMED_HEADERS))

    def _oversize_frame(self, reply: Reply) -> None:
        # Past the limit that the connection itself keeps: the server ends this connection for it.
        body = self._allow().ljust(OVERSIZE_BYTES)
        frame = (f"PUB {reply.subject} {len(body)}\r\n".encode(), body, b"\r\n")
        if self._client is not None:
            self._client.write(frame, max_unsent_bytes=2**62)
