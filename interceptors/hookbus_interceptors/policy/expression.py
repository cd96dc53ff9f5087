"""Expressions in CEL. They read the context, have no effect, and end: the language has no loops without bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeAlias

import cel
from pydantic import AfterValidator, Field

from hookbus import OutOfDomain, codec
from hookbus.codec import Json
from hookbus_interceptors.policy.errors import Undecided, place_in

#: Far longer ones end the process: the engine recurses on their depth.
MAX_CHARACTERS: Final = 4096
#: What the engine raises for a missing field, a type that an operation does not take, an index, a division, an
#: overflow, a wrong pattern, an unknown name.
_FAULTS: Final = (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError)


class Scope:
    """What the expressions of one question may name, converted once for all of them."""

    def __init__(self, context: Mapping[str, Json], names: Iterable[str]) -> None:
        """Take the blocks *names* of *context*, where they are there. Raises :class:`Undecided`."""
        try:
            # Only what is named: the engine copies all that it is given, and a conversation is long.
            self.blocks = cel.Context({name: context[name] for name in names if name in context})
        except _FAULTS as fault:
            raise Undecided(type(fault).__name__) from None


class Expression:
    """One expression, compiled once. Used from several threads at a time."""

    def __init__(self, source: str) -> None:
        """Compile *source*; raise ValueError, which tells the place and quotes nothing."""
        try:
            self._program = cel.compile(source)
        except ValueError as error:
            raise ValueError(f"is not a CEL expression{place_in(error)}") from None
        #: The blocks that it reads, and its own variables.
        self.names = frozenset(self._program.variables())

    def holds(self, scope: Scope) -> bool:
        """Return whether the expression is true; nothing is true or false but ``true`` and ``false``.

        Raises :class:`Undecided`.
        """
        value = self._evaluated(scope)
        if not isinstance(value, bool):
            raise Undecided("NotABoolean")
        return value

    def value(self, scope: Scope) -> Json:
        """Return the value of the expression. Raises :class:`Undecided`, also for what is not JSON."""
        value = self._evaluated(scope)
        try:
            codec.survey(value)
        except OutOfDomain:
            raise Undecided("NotJson") from None
        return value

    def _evaluated(self, scope: Scope) -> Json:
        try:
            return self._program.execute(scope.blocks)
        except _FAULTS as fault:
            # Its message may quote the payload: a key that is missing is an argument's value, at times.
            raise Undecided(type(fault).__name__) from None


def _compiles(source: str) -> str:
    Expression(source)
    return source


#: The type of a setting that is such an expression.
ExpressionText: TypeAlias = Annotated[str, Field(max_length=MAX_CHARACTERS), AfterValidator(_compiles)]
