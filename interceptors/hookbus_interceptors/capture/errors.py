"""What capturing and reading what was captured may raise; no message holds a key or a word of a context.

HookbusError
└── CaptureError
    ├── KeyInvalid         it is no X25519 key in PEM, or needs another passphrase
    ├── FolderNotPrivate   others than its owner may enter the folder
    ├── CaptureFailed      a context was not stored
    ├── NothingCaptured    there is no folder, or no segment in it
    └── RecordUnknown      no record of that id can be read
"""

from __future__ import annotations

from pathlib import Path

from hookbus import HookbusError


class CaptureError(HookbusError):
    """The base of what goes wrong with captured contexts."""


class KeyInvalid(CaptureError, ValueError):
    """The text is not the key that is wanted, which is of ``kind`` public or private."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(f"it is no {kind} key as `hookbus replay keygen` writes it (PEM, X25519)")


class FolderNotPrivate(CaptureError, PermissionError):
    """Others than the owner may enter ``folder``; nothing was written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"others may enter {folder}; close it with `chmod 700`, or name a new folder")


class CaptureFailed(CaptureError, OSError):
    """A context was not stored; ``why`` is the name of an error number, or what the spool is short of."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"a context was not stored ({why})")


class NothingCaptured(CaptureError, FileNotFoundError):
    """``folder`` holds no segment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"nothing was captured in {folder}")


class RecordUnknown(CaptureError, LookupError):
    """There is no record ``record_id``, or it cannot be read with this key."""

    def __init__(self, record_id: str) -> None:
        self.record_id = record_id
        super().__init__(f"no record {record_id!r} can be read here with this key")
