"""What is fuzzed: how a case is drawn, and what must hold for it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol, Self


class Target(Protocol):
    """One part of the system under bent input, entered before its first case and left after its last."""

    name: str

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    def case(self, random: Random) -> Any:
        """Return a case, which depends on *random* alone."""
        ...

    async def check(self, case: Any) -> str:
        """Return in a word what *case* came to; AssertionError where something does not hold for it."""
        ...


class Plain:
    """A target that needs nothing to be set up."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return None


def sometimes(random: Random, one_in: int) -> bool:
    """Return true once in so many times."""
    return random.randrange(one_in) == 0


def few(random: Random, choices: Sequence[Any], most: int = 3) -> list[Any]:
    """Return up to *most* of *choices*, some perhaps twice."""
    return [random.choice(choices) for _ in range(random.randrange(most + 1))]
