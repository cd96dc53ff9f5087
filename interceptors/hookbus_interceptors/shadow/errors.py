"""What goes wrong with a candidate. In shadow each is counted; where the candidate decides, each denies.

HookbusError (hookbus)
└── ShadowError
    ├── CandidateKeepsCount    it acts on state that the one that decides acts on, too
    ├── CandidateNotOpen       its ``lifespan`` has not been entered, or raised
    ├── CandidateBusy          as many of its calls run, or hang, as it may have
    ├── CandidateMissesPoint   it does not answer at a point at which the current one does
    ├── CandidateTimedOut      it did not answer within its own time
    └── ShadowRestartNeeded    a reloaded configuration changes what a worker settles when it starts
"""

from __future__ import annotations

from hookbus import HookbusError


class ShadowError(HookbusError):
    """The base."""


class CandidateKeepsCount(ShadowError, TypeError):
    """The candidate at ``target`` tells repeats by itself: it counts questions, and would in shadow."""

    def __init__(self, target: str) -> None:
        self.target = target
        super().__init__(
            f"{target} counts questions (repeat_aware), so it cannot answer beside another: it would "
            "spend what the other one spends. Try it with a tenant of its own"
        )


class CandidateNotOpen(ShadowError, RuntimeError):
    """The candidate's ``lifespan`` has not been entered in time, or it raised."""

    def __init__(self) -> None:
        super().__init__("the candidate's lifespan is not open; the log says what it raised, if it did")


class CandidateBusy(ShadowError, RuntimeError):
    """``calls`` calls of the candidate run or hang already."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        super().__init__(f"{calls} calls of the candidate run or hang already; set concurrency higher, or mend it")


class CandidateMissesPoint(ShadowError, LookupError):
    """The candidate does not answer at ``point``, and nobody may say allow in its place."""

    def __init__(self, point: str) -> None:
        self.point = point
        super().__init__(
            f"the candidate does not answer at {point}, where the current one does; let it, or unbind both"
        )


class CandidateTimedOut(ShadowError, TimeoutError):
    """The candidate did not answer within its own time, or before its question expired."""

    def __init__(self) -> None:
        super().__init__("the candidate did not answer in time; timeout_s and the question's budget limit it")


class ShadowRestartNeeded(ShadowError):
    """``what`` differs after a reload, and the worker has settled it when it started."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} changes only with a restart of the worker")
