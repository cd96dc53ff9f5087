"""The spool: one thread that writes what questions hand over, one sync for all that came meanwhile."""

from __future__ import annotations

import errno
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hookbus_interceptors.capture.configuration import CaptureConfiguration
from hookbus_interceptors.capture.errors import CaptureFailed, FolderNotPrivate
from hookbus_interceptors.capture.retention import sweep
from hookbus_interceptors.capture.segment import SegmentWriter, make_folder

logger = logging.getLogger("hookbus.capture")

#: How often retention is looked after, also when nobody asks.
TIDY_INTERVAL_S: Final = 60.0
#: What may wait for the disk; more is refused.
MAX_WAITING_BYTES: Final = 64 * 1024**2
#: Records that share one write.
_MOST_AT_ONCE: Final = 256


def wall_clock() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class _Handed(NamedTuple):
    text: bytes
    stored: Future[None]


class Spool:
    """Stores records in segments, as ``settings`` say; those may be replaced at any time.

    A crash of the process loses nothing that :meth:`store` has confirmed. The thread is a daemon: a disk that
    hangs never keeps the process.
    """

    def __init__(self, settings: CaptureConfiguration, now: Callable[[], datetime] = wall_clock) -> None:
        self.settings = settings
        self._now = now
        self._queue: queue.SimpleQueue[_Handed | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None
        self._segment: SegmentWriter | None = None
        #: What the segment was opened with.
        self._opened_with = settings
        #: Records lost since the last one that was stored.
        self._lost = 0

    def open(self) -> None:
        """Make the folder and delete what is past its time. Raises :class:`CaptureError`."""
        try:
            make_folder(self.settings.folder)
            self._sweep()
        except FolderNotPrivate:
            raise
        except OSError as error:
            raise CaptureFailed(_name(error)) from None

    def store(self, text: bytes) -> Future[None]:
        """Hand over one record; the future ends when it is on disk, or with :class:`CaptureFailed`.

        Raises the same at once where too much is waiting. From any thread.
        """
        handed = _Handed(text, Future())
        with self._lock:
            if self._waiting_bytes + len(text) > MAX_WAITING_BYTES:
                raise CaptureFailed("backlog")
            self._waiting_bytes += len(text)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="hookbus capture", daemon=True)
                self._thread.start()
        self._queue.put(handed)
        return handed.stored

    def close(self) -> None:
        """Store what was handed over, end the segment and return."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    # ---- in the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                batch = self._take()
            except queue.Empty:
                self._tidy()
                continue
            if batch:
                self._write(batch)
            else:
                self._end_segment()
                return

    def _take(self) -> list[_Handed]:
        """Return what is waiting, or nothing at the end. Raises queue.Empty when it is time to tidy."""
        batch: list[_Handed] = []
        handed = self._queue.get(timeout=TIDY_INTERVAL_S)
        while handed is not None:
            batch.append(handed)
            if len(batch) == _MOST_AT_ONCE or self._queue.empty():
                return batch
            handed = self._queue.get()
        if batch:
            # The end comes again, after what came before it.
            self._queue.put(None)
        return batch

    def _write(self, batch: list[_Handed]) -> None:
        failed: CaptureFailed | None = CaptureFailed("stopped")
        try:
            self._segment_for(sum(len(handed.text) for handed in batch)).append([h.text for h in batch])
            failed = None
        except OSError as error:
            failed = CaptureFailed(_name(error))
        finally:
            self._settle(batch, failed)

    def _settle(self, batch: list[_Handed], failed: CaptureFailed | None) -> None:
        if failed is not None and self._segment is not None:
            self._segment.abandon()
            self._segment = None
        with self._lock:
            self._waiting_bytes -= sum(len(handed.text) for handed in batch)
        self._say(failed, len(batch))
        for handed in batch:
            if failed is None:
                handed.stored.set_result(None)
            else:
                handed.stored.set_exception(failed)

    def _segment_for(self, more_bytes: int) -> SegmentWriter:
        """Return the open segment, or the next one where its day, its room or its settings have ended."""
        now, settings, segment = self._now(), self.settings, self._segment
        if segment is not None and (
            segment.began.date() != now.date()
            or segment.size_bytes + more_bytes > settings.segment_bytes
            or self._opened_with is not settings
        ):
            self._end_segment()
        if self._segment is None:
            make_folder(settings.folder)
            self._segment, self._opened_with = SegmentWriter(settings.folder, settings.recipient, now), settings
            self._tidy()
        return self._segment

    def _tidy(self) -> None:
        """End a segment whose day is over, and keep to the limits; that this fails is logged and no more."""
        if self._segment is not None and self._segment.began.date() != self._now().date():
            self._end_segment()
        try:
            self._sweep()
        except OSError as error:
            logger.error("captured contexts past their time could not be deleted (%s)", _name(error))

    def _sweep(self) -> None:
        settings = self.settings
        # With room for what is written from now on.
        limit_bytes = settings.max_bytes - settings.segment_bytes
        deleted = sweep(settings.folder, keep=settings.keep, max_bytes=limit_bytes, now=self._now())
        if deleted:
            logger.info("%d segments of captured contexts were deleted, by age or by size", deleted)

    def _end_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            try:
                segment.end()
            except OSError:
                # All its records are on disk; a reader is told that nobody ended it.
                segment.abandon()

    def _say(self, failed: CaptureFailed | None, records: int) -> None:
        """Log the first failure of a row, and its end."""
        if failed is None:
            if self._lost:
                logger.warning("contexts are captured again; %d were not", self._lost)
            self._lost = 0
            return
        if not self._lost:
            logger.error("NOT CAPTURED: %s", failed)
        self._lost += records


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)
