"""Retention: whole segments go, by age and by size, and none that somebody still writes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from hookbus_interceptors.capture.segment import began_at, segments_in


def sweep(folder: Path, *, keep: timedelta, max_bytes: int, now: datetime) -> int:
    """Delete the segments in *folder* that began more than *keep* ago, then the oldest beyond ``max_bytes``.

    Returns how many went. A segment that is open in any process stays. Raises OSError.
    """
    deleted = 0
    segments = [(path, path.stat().st_size) for path in segments_in(folder)]
    total_bytes = sum(size_bytes for _, size_bytes in segments)
    for path, size_bytes in segments:
        began = began_at(path.stem)
        too_old = began is not None and now - began > keep
        if (too_old or total_bytes > max_bytes) and _delete(path):
            total_bytes -= size_bytes
            deleted += 1
    return deleted


def _delete(path: Path) -> bool:
    with _locked(path) as locked:
        if locked:
            path.unlink(missing_ok=True)
    return locked


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        # Another worker was faster.
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)
