"""Private keys: made here, written once with mode 0600, and never read back, printed or logged."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

import nkeys


def new_user_key() -> tuple[bytes, str]:
    """Return a new nkey of a user: its seed, which is the secret, and its public key."""
    seed = bytes(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER))
    return seed, nkeys.from_seed(seed).public_key.decode()


def write_private(path: Path, secret: bytes) -> None:
    """Write a new file that only its owner can read; raises FileExistsError rather than replace one.

    The folders above it are made, for its owner only, where they are missing.
    """
    make_private_folder(path.parent)
    # The mode is given with the creation: a file that is made first and closed to others after is open between.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)


def make_private_folder(path: Path) -> None:
    """Make *path*, and what is missing above it, for the owner only."""
    if not path.is_dir():
        make_private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def write_public(path: Path, text: str) -> None:
    """Put *text* in place of what *path* held, in one step: a reader sees the old or the new, never a part."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.write_text(text, "utf-8")
        os.replace(unfinished, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
