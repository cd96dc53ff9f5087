"""Fresh keys for tests."""

from __future__ import annotations

import os
from pathlib import Path

import nkeys

from hookbus.signing import Signer


def seed() -> bytes:
    """Return a fresh user seed."""
    return bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER))


def write_seed(path: Path) -> Signer:
    """Write a fresh seed to *path* and return its signer."""
    fresh = seed()
    path.write_bytes(fresh)
    return Signer(fresh)


def write_trust(path: Path, *, agents: dict[str, list[str]], workers: dict[str, list[str]]) -> Path:
    """Write a trust file to *path* and return it."""
    lines = []
    for table, names in (("agents", agents), ("workers", workers)):
        lines.append(f"[{table}]")
        lines += [f"{name!r} = {keys!r}" for name, keys in names.items()]
    path.write_text("\n".join(lines))
    return path
