"""The breaker: after repeated silence from one interceptor, stop waiting out whole deadlines.

It only ever makes a deny come sooner. Open, it denies at once, but lets one real question through per interval as
the trial; anything but silence closes it again.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("hookbus.breaker")


class Breaker:
    """Watches one interceptor on one connection. Times are seconds of the loop's clock."""

    def __init__(self, interceptor: str, *, opens_after: int, trial_interval_s: float) -> None:
        self._interceptor = interceptor
        self._opens_after = opens_after
        self._trial_interval_s = trial_interval_s
        self._silences = 0
        self._next_trial = 0.0

    @property
    def is_open(self) -> bool:
        """Whether questions are denied at once, but for the trials."""
        return self._silences >= self._opens_after

    def permits(self, now: float) -> bool:
        """Whether to ask now. While open that is once per interval, the first time right after it opened."""
        if not self.is_open:
            return True
        if now < self._next_trial:
            return False
        self._next_trial = now + self._trial_interval_s
        return True

    def heard(self) -> None:
        """Note that a question ended by something else than silence."""
        if self.is_open:
            logger.warning("%r is asked again: it is no longer silent", self._interceptor)
        self._silences = 0

    def silent(self) -> None:
        """Note that a question ended by silence at its deadline."""
        self._silences += 1
        if self._silences == self._opens_after:
            self._next_trial = 0.0
            logger.warning(
                "%r was silent %d times in a row: denying at once, with one trial every %g s",
                self._interceptor,
                self._opens_after,
                self._trial_interval_s,
            )
