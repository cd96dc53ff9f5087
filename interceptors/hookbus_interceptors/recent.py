"""What was found out about a text and still holds: a conversation comes again at every turn, with little new."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Holds what was found out about up to *most* texts, each for *for_s* seconds; the longest unused give way.

    It holds digests (SHA-256), no text. It may be used by several threads at once.
    """

    def __init__(self, most: int, for_s: float = math.inf, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._for_s = for_s
        self._now_s = now_s
        self._lock = threading.Lock()
        #: By digest, the longest unused first: what was found out, and until when it holds.
        self._kept: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def find(self, text: str) -> T | None:
        """Return what was found out about exactly this *text*, None where nothing is known that still holds."""
        if not self._kept:
            return None
        digest = _digest(text)
        with self._lock:
            until_s, known = self._kept.get(digest, (-math.inf, None))
            if self._now_s() >= until_s:
                return None
            self._kept.move_to_end(digest)
            return known

    def keep(self, text: str, known: T) -> None:
        """Keep what is *known* of *text* now."""
        if self._for_s <= 0 or self._most <= 0:
            return
        digest = _digest(text)
        with self._lock:
            self._kept[digest] = self._now_s() + self._for_s, known
            self._kept.move_to_end(digest)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
