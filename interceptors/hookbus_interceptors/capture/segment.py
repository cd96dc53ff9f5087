"""A segment: one file of sealed lines, written once from its beginning to its end.

    {"format":1,"segment":"20261130T101500123456Z-1f2e3d4c","recipient":"…","key":"…"}
    base64 of record 0
    base64 of record 1
    .base64 of the end, whose number is the number of records

A line that was cut off has no newline, so a crash costs the line that it tore and nothing before. The key is
sealed to the recipient; the number of a line and the segment's name are bound into its seal. A writer holds a lock
(flock) on the file for as long as it is open.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from hookbus_interceptors.capture.errors import FolderNotPrivate
from hookbus_interceptors.capture.sealing import SegmentKey, fingerprint

#: What is written here, and all that is read.
FORMAT: Final = 1
SUFFIX: Final = ".capture"
#: What the line begins with that ends a segment; no base64 does.
END_MARK: Final = b"."
_BEGAN: Final = "%Y%m%dT%H%M%S%fZ"


class Header(msgspec.Struct, frozen=True):
    """The first line."""

    format: int
    segment: str
    #: The fingerprint of the public key.
    recipient: str
    #: The segment's key, sealed, in base64.
    key: str


def began_at(segment: str) -> datetime | None:
    """Return when *segment* began, which its name says; None for any other name."""
    try:
        return datetime.strptime(segment.partition("-")[0], _BEGAN).replace(tzinfo=UTC)
    except ValueError:
        return None


def segments_in(folder: Path) -> list[Path]:
    """Return the segments in *folder*, the oldest first; none where there is no folder."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if began_at(path.stem) is not None)


def make_folder(folder: Path) -> None:
    """Make *folder*, for its owner only. Raises :class:`FolderNotPrivate` where it is there and is not."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        raise FolderNotPrivate(folder)


class SegmentWriter:
    """A new segment in *folder*. Raises OSError, here and in every method; then it is to be abandoned."""

    def __init__(self, folder: Path, public_key: X25519PublicKey, now: datetime) -> None:
        self.began = now
        self.name = f"{now.strftime(_BEGAN)}-{secrets.token_hex(4)}"
        self._key, sealed = SegmentKey.new(public_key, self.name)
        header = Header(FORMAT, self.name, fingerprint(public_key), base64.b64encode(sealed).decode("ascii"))
        self._number = 0
        #: Bytes that are safe on disk, and those of them that are no records.
        self.size_bytes = self._header_bytes = 0
        self._path = folder / f"{self.name}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(msgspec.json.encode(header) + b"\n")
            _sync_folder(folder)
        except OSError:
            self.abandon()
            raise
        self._header_bytes = self.size_bytes

    def append(self, texts: Sequence[bytes]) -> None:
        """Write a record for each of *texts*; all are on disk when this returns."""
        lines = []
        for text in texts:
            lines.append(base64.b64encode(self._key.seal(self._number, "record", text)) + b"\n")
            self._number += 1
        self._write(b"".join(lines))

    def end(self) -> None:
        """Write that nothing comes after this, and close."""
        self._write(END_MARK + base64.b64encode(self._key.seal(self._number, "end", b"")) + b"\n")
        os.close(self._descriptor)

    def abandon(self) -> None:
        """Close after an error, without what was not safe on disk. Never raises, and nothing is written after."""
        with contextlib.suppress(OSError):
            if self.size_bytes <= self._header_bytes:
                # Or every attempt to write to a full disk would leave a file.
                self._path.unlink()
            os.ftruncate(self._descriptor, self.size_bytes)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def _write(self, lines: bytes) -> None:
        unwritten = memoryview(lines)
        while unwritten:
            written = os.write(self._descriptor, unwritten)
            if written == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            unwritten = unwritten[written:]
        os.fsync(self._descriptor)
        self.size_bytes += len(lines)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
