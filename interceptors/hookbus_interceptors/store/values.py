"""Values that all workers share: changed by compare-and-set, never checked first and recorded later.

The changes of one key that wait in a process are written together, so a hot key costs each process one write at a
time, and processes, not questions, compete for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import msgspec

import hookbus
from hookbus_interceptors.current import question
from hookbus_interceptors.store.bucket import Bucket, StoreSettings
from hookbus_interceptors.store.errors import (
    Contended,
    EntryUnreadable,
    RestartNeeded,
    StoreDown,
    StoreError,
    StoreSilent,
)

logger = logging.getLogger("hookbus.store")

#: One request; after it the change is tried again, as long as its question waits.
REQUEST_S: Final = 0.5
#: Attempts that lose to others before the change is given up.
MAX_ATTEMPTS: Final = 100
FIRST_PAUSE_S: Final = 0.001
LONGEST_PAUSE_S: Final = 0.05
#: The part of a question's time that is kept for its answer to get back.
WAY_BACK: Final = 0.1
#: How long undoing is tried, as its question may be over.
UNDO_S: Final = 5.0
#: What changes that nobody waits for may take when the interceptor ends.
GRACE_S: Final = 1.0

V = TypeVar("V", bound=msgspec.Struct)
R = TypeVar("R")

#: Changes a value in place, or does not: returns what to tell and whether anything is to be written. It may run
#: several times and in several processes, so a second run for the same question must change nothing more.
Change = Callable[[V], tuple[R, bool]]


class Step(msgspec.Struct, Generic[V, R], frozen=True):
    """One change of several that stand together: it tells None, or why it was not made."""

    key: str
    change: Change[V, R | None]
    ttl_s: int


class _Waiting(msgspec.Struct, Generic[V], eq=False):
    change: Change[V, Any]
    ttl_s: int
    until_s: float
    told: asyncio.Future[Any]

    def fail(self, error: BaseException) -> None:
        if not self.told.done():
            self.told.set_exception(error)
            # Of those that nobody waits for, nobody reads it.
            self.told.exception()


class Values(Generic[V]):
    """Values of *kind*, which has defaults for all it holds, in the bucket of *settings* while :meth:`opened`."""

    def __init__(self, settings: StoreSettings, kind: type[V]) -> None:
        self._bucket = Bucket(settings)
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._encoder = msgspec.json.Encoder()
        self._waiting: dict[str, list[_Waiting[V]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def taken_over(self, settings: StoreSettings) -> Values[V]:
        """Return this object for an interceptor whose new configuration has *settings*; :class:`RestartNeeded`."""
        if settings != self._bucket.settings:
            raise RestartNeeded
        return self

    @asynccontextmanager
    async def opened(self, worker: hookbus.Settings) -> AsyncIterator[None]:
        """Hold the bucket open; *worker* are the settings of the worker's own connection. See :class:`Bucket`."""
        async with self._bucket.opened(worker):
            try:
                yield
            finally:
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=GRACE_S)
                for task in self._tasks:
                    task.cancel()

    async def change_all(self, steps: Iterable[Step[V, R]], undo: Change[V, None]) -> tuple[Step[V, R], R] | None:
        """Make the change of each step, one after the other; return the first that was not made, and why.

        What was made before it is undone a moment later, and so is everything when this raises or is cancelled:
        *undo* undoes any of the changes, and one that was never made.
        """
        begun: list[Step[V, R]] = []
        try:
            for step in steps:
                begun.append(step)
                why = await self.change(step.key, step.change, ttl_s=step.ttl_s)
                if why is not None:
                    self._undo(begun, undo)
                    return step, why
        except BaseException:
            # The last one may stand as well.
            self._undo(begun, undo)
            raise
        return None

    def _undo(self, begun: Iterable[Step[V, R]], undo: Change[V, None]) -> None:
        for step in begun:
            self.submit(step.key, undo, ttl_s=step.ttl_s, limit_s=UNDO_S)

    async def change(self, key: str, change: Change[V, R], *, ttl_s: int) -> R:
        """Return what *change* tells of the value under *key*, once what it made of the value stands.

        Waits as long as the question that is being answered leaves time to answer it. Raises :class:`StoreError`;
        whether the change stands is then not known, nor when this is cancelled: have a later change undo it.
        """
        asked = question()
        limit_s = asked.remaining_s * (1 - WAY_BACK)
        told = self.submit(key, change, ttl_s=ttl_s, limit_s=limit_s)
        try:
            await asyncio.wait([told], timeout=limit_s)
            if not told.done():
                raise StoreSilent
            return told.result()
        finally:
            told.cancel()

    def submit(self, key: str, change: Change[V, R], *, ttl_s: int, limit_s: float) -> asyncio.Future[R]:
        """Have *change* made after all that was submitted for *key* before; never waits.

        It is forgotten when the future is cancelled, or when its turn has not come within ``limit_s`` seconds.
        """
        loop = asyncio.get_running_loop()
        told: asyncio.Future[R] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = []
            task = asyncio.create_task(self._serve(key, waiting), name="hookbus store")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        waiting.append(_Waiting(change, ttl_s, loop.time() + limit_s, told))
        return told

    async def _serve(self, key: str, waiting: list[_Waiting[V]]) -> None:
        batch: list[_Waiting[V]] = []
        try:
            while waiting:
                batch = _take(waiting)
                await self._settle(key, batch, waiting)
        finally:
            del self._waiting[key]
            for one in (*batch, *waiting):
                one.fail(StoreDown())

    async def _settle(self, key: str, batch: list[_Waiting[V]], waiting: list[_Waiting[V]]) -> None:
        """Have every change of *batch*, and of those that come while it is tried again, told or failed."""
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        for _ in range(MAX_ATTEMPTS):
            now = loop.time()
            batch[:] = [one for one in batch if not one.told.done() and one.until_s > now]
            if not batch:
                return
            try:
                if await self._attempt(key, batch):
                    return
            except StoreSilent:
                # Perhaps it stands, perhaps not: the next attempt reads which, and finds its own traces there.
                pass
            except (StoreError, hookbus.BodyTooLarge) as error:
                for one in batch:
                    one.fail(error)
                return
            await asyncio.sleep(random.uniform(0, pause_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            batch += _take(waiting)
        for one in batch:
            one.fail(Contended(MAX_ATTEMPTS))

    async def _attempt(self, key: str, batch: list[_Waiting[V]]) -> bool:
        """Read, change and write once; False where somebody else wrote in between."""
        entry = await self._bucket.read(key, timeout_s=REQUEST_S)
        try:
            value = self._decoder.decode(entry.value) if entry.revision else self._kind()
        except msgspec.DecodeError:
            raise EntryUnreadable from None
        told = [one.change(value) for one in batch]
        if any(write for _, write in told):
            written = await self._bucket.replace(
                key,
                self._encoder.encode(value),
                revision=entry.revision,
                ttl_s=max(one.ttl_s for one in batch),
                timeout_s=REQUEST_S,
            )
            if not written:
                return False
        for one, (result, _) in zip(batch, told, strict=True):
            if not one.told.done():
                one.told.set_result(result)
        return True


def _take(waiting: list[_Waiting[V]]) -> list[_Waiting[V]]:
    taken = waiting[:]
    waiting.clear()
    return taken
