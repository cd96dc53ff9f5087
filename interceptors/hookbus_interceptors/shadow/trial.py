"""One question put to both: the current one's answer goes out, the candidate's is compared with it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import msgspec
from agent_hooks import Verdict

from hookbus.codec import Json
from hookbus_interceptors.shadow.aside import Aside, Ended
from hookbus_interceptors.shadow.comparison import TIMED_OUT, Ending, answered, failed
from hookbus_interceptors.shadow.counts import Counts, Phase


class Trial:
    """Counts the question when both have ended, on the candidate's loop, whichever is first.

    Around the current one's call it is a context manager, which notes what is raised and lets it out. Nothing here
    waits for the candidate.
    """

    def __init__(self, aside: Aside, counts: Counts, phase: Phase, point: str) -> None:
        self._aside = aside
        self._counts = counts
        self._phase = phase
        self._point = point
        self._current: Ending | None = None
        self._candidate: Ending | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._aside.soon(self._end_current, failed(error))

    def answer(self, answer: Json | Verdict) -> None:
        """Note what the current one answered, which nobody changes any more."""
        self._aside.soon(self._read_current, answer)

    def _read_current(self, answer: Json | Verdict) -> None:
        self._end_current(answered(answer))

    def _end_current(self, ending: Ending) -> None:
        self._current = ending
        self._settle()

    def end_candidate(self, ended: Ended) -> None:
        """Note how the candidate ended; on its loop."""
        if ended.late:
            self._candidate = Ending(TIMED_OUT)
        elif ended.outcome.error is not None:
            self._candidate = failed(ended.outcome.error)
        else:
            self._candidate = answered(msgspec.json.decode(ended.outcome.body))
        self._settle()

    def _settle(self) -> None:
        if self._current is not None and self._candidate is not None:
            self._counts.compare(self._phase, self._point, self._current, self._candidate)
