"""``capture``: stores each context, encrypted, and decides nothing.

What it is for: ``hookbus replay`` asks a candidate what agents really asked. What it cannot: read back what it
stored, beyond the segment that is open. How it fails: a context that is not on disk in time denies, or, where
the configuration says so, passes with a warning; either is logged.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import asynccontextmanager
from typing import Final, Self

import anyio.to_thread

import hookbus
from hookbus import codec
from hookbus_interceptors.authoring import Context, Verdict, allow, deny, every_point, warning
from hookbus_interceptors.capture.configuration import CaptureConfiguration
from hookbus_interceptors.capture.errors import CaptureFailed
from hookbus_interceptors.capture.spool import Spool
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.current import question

#: What is kept of a question's time to answer in.
_MARGIN_S: Final = 0.1
#: How long the end of the worker waits for the disk.
_CLOSE_S: Final = 5.0


class Capture(Configured[CaptureConfiguration]):
    """Allows everything that it has stored."""

    #: A second attempt is told by its id when it is read.
    repeat_aware = True

    def __init__(self, configuration: CaptureConfiguration) -> None:
        super().__init__(configuration)
        self._spool = Spool(configuration)

    def take_over(self, previous: Self) -> None:
        """Go on with the spool of *previous*; a new segment begins."""
        self._spool = previous._spool
        self._spool.settings = self.configuration

    @asynccontextmanager
    async def lifespan(self, bus: hookbus.Connection) -> AsyncIterator[None]:
        """Check the folder before the first question, and end the segment after the last."""
        spool = self._spool
        await anyio.to_thread.run_sync(spool.open)
        try:
            yield
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await anyio.to_thread.run_sync(spool.close, abandon_on_cancel=True)

    # Not a coroutine: a worker calls it in a thread, which may wait for the disk.
    @every_point
    def store(self, context: Context) -> Verdict:
        """Return allow once the context is stored; what the configuration says where it is not."""
        asked = question()
        text = codec.encode(
            {"at_ms": time.time_ns() // 1_000_000, "question": asked.id, "context": context.raw},
            codec.survey(context.raw),
        )
        try:
            stored = self._spool.store(text)
            stored.result(max(0.0, min(self.configuration.wait_s, asked.remaining_s - _MARGIN_S)))
        except (CaptureFailed, FutureTimeout):
            return self._failed()
        return allow()

    def _failed(self) -> Verdict:
        reason, message = "capture:not-stored", "The context could not be stored in time."
        if self.configuration.on_failure == "allow":
            return allow(warnings=[warning(reason, message)])
        return deny(reason, message)
