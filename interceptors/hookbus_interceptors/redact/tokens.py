"""What stands in the place of a piece that is gone: ``[IBAN]``, or ``[IBAN:kdpe…]``, the same for the same one."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

_DIGEST_LETTERS: Final = 16
#: A digest is written in letters: no number can be passed off as one.
_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_TOKEN: Final = re.compile(rf"\[[A-Z]{{2,10}}(?:_[A-Z]{{2,10}})?(?::[a-p]{{{_DIGEST_LETTERS}}})?\]")
#: In its place stands as much of this: nothing that is looked for goes on over the ends of lines.
_NOTHING: Final = "\n"


def token(kind: str) -> str:
    """Return what stands for any piece of *kind*."""
    return f"[{kind}]"


def digest(kind: str, piece: str, key: bytes) -> str:
    """Return what stands for *piece* alone: the same for all its spellings, under *key* only (HMAC-SHA-256)."""
    if kind != "SECRET":
        piece = piece.casefold()
    if kind in ("IBAN", "CARD", "PHONE") or "_" in kind:
        piece = re.sub(r"[\W_]", "", piece)
    found = hmac.new(key, f"{kind}\0{piece}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return f"[{kind}:{found[:_DIGEST_LETTERS].translate(_LETTERS)}]"


def without_tokens(text: str) -> str:
    """Return *text*, as long as it is, with nothing to find where tokens stand."""
    return _TOKEN.sub(lambda match: _NOTHING * len(match[0]), text) if "[" in text else text
