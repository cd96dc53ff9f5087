"""Judgements that are still fresh: a conversation comes again at every turn, and only what is new is asked."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from hookbus_interceptors.content.judging import Judgement


class RecentJudgements:
    """Up to *most* judgements, each for *for_s* seconds; the oldest give way. It holds digests, no text."""

    def __init__(self, most: int, for_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._for_s = for_s
        self._now_s = now_s
        #: In the order in which they were made, which is the order in which they end.
        self._kept: dict[bytes, tuple[float, Judgement]] = {}

    def find(self, text: str) -> Judgement | None:
        """Return the judgement of exactly this *text*, None where there is none that is fresh."""
        until_s, judgement = self._kept.get(_digest(text), (0.0, None))
        return judgement if self._now_s() < until_s else None

    def keep(self, text: str, judgement: Judgement) -> None:
        """Keep the *judgement* of *text*."""
        if self._for_s <= 0 or self._most <= 0:
            return
        digest = _digest(text)
        self._kept.pop(digest, None)
        while len(self._kept) >= self._most:
            del self._kept[next(iter(self._kept))]
        self._kept[digest] = self._now_s() + self._for_s, judgement


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8")).digest()
