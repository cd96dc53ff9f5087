"""One account: what a scope has used in a window, and what calls in progress have reserved.

Everything in it that expires says when by itself, in Unix milliseconds; the store's own expiry only clears up.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

#: Reservations and remembered questions of one account; one more is refused, or the entry would grow too large.
MAX_ENTRIES: Final = 4000
#: How far the clocks of workers may be apart where a question is remembered until it expires.
SKEW_MS: Final = 2000


class Measure(StrEnum):
    """What a limit counts, as reasons name it."""

    TOOL_CALLS = "tool-calls"
    TOKENS = "tokens"
    COST = "cost"
    ELAPSED = "elapsed"
    #: Not of a limit: the account holds as many reservations as it can.
    RESERVATIONS = "reservations"


class Amounts(msgspec.Struct, frozen=True, array_like=True):
    """Amounts of each measure; cost in billionths of a USD."""

    tool_calls: int = 0
    tokens: int = 0
    cost: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.tool_calls + other.tool_calls, self.tokens + other.tokens, self.cost + other.cost)


class Ceiling(msgspec.Struct, frozen=True):
    """The most that an account may come to; None is no limit. ``cost`` in billionths of a USD."""

    tool_calls: int | None = None
    tokens: int | None = None
    cost: int | None = None
    elapsed_ms: int | None = None

    def exceeded_by(self, amounts: Amounts) -> Measure | None:
        """Return the first measure of which *amounts* are too much."""
        if self.tool_calls is not None and amounts.tool_calls > self.tool_calls:
            return Measure.TOOL_CALLS
        if self.tokens is not None and amounts.tokens > self.tokens:
            return Measure.TOKENS
        if self.cost is not None and amounts.cost > self.cost:
            return Measure.COST
        return None

    def counts(self, amounts: Amounts) -> bool:
        """Whether *amounts* have anything that is limited here."""
        return bool(
            (self.tool_calls is not None and amounts.tool_calls)
            or (self.tokens is not None and amounts.tokens)
            or (self.cost is not None and amounts.cost)
        )


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """What one question has reserved."""

    #: Those that hold it: a question may be asked a second time, of another worker, and counts once.
    attempts: tuple[str, ...]
    #: Which call is to settle it: calls of the same name settle the oldest first.
    call: str
    amounts: Amounts
    #: When it expires.
    until_ms: int
    #: When the question expires, after which no further attempt of it comes.
    answer_by_ms: int


class Refusal(msgspec.Struct, frozen=True):
    """Why a reservation was not made."""

    measure: Measure
    #: When the first reservation in the way expires at the latest; None where it would not help.
    held_until_ms: int | None = None


class Account(msgspec.Struct, omit_defaults=True):
    """What stands under one key. Every method may run again for the same question and changes nothing more then.

    They return what to tell and whether anything is to be written.
    """

    #: The first question; 0 before it.
    began_ms: int = 0
    used: Amounts = Amounts()
    #: Reservations, by question, the oldest first.
    held: dict[str, Hold] = {}
    #: Questions that were settled, and until when they are remembered: a late second attempt is no new call.
    answered: dict[str, int] = {}

    def reserve(
        self, question: str, hold: Hold, ceiling: Ceiling, *, now_ms: int, spend_expired: bool
    ) -> tuple[Refusal | None, bool]:
        """Make the reservation *hold* unless more than *ceiling* would then be used or reserved.

        One that counts nothing only begins the account. *spend_expired* says what expired reservations become.
        """
        began, self.began_ms = self.began_ms, self.began_ms or now_ms
        if ceiling.elapsed_ms is not None and now_ms - self.began_ms >= ceiling.elapsed_ms:
            return Refusal(Measure.ELAPSED), False
        if not ceiling.counts(hold.amounts):
            return None, began == 0
        if question in self.answered:
            return None, False
        self._expire(now_ms, spend=spend_expired)
        if (other := self.held.get(question)) is not None:
            new = tuple(attempt for attempt in hold.attempts if attempt not in other.attempts)
            self.held[question] = replace(other, attempts=other.attempts + new)
            return None, bool(new)
        if len(self.held) + len(self.answered) >= MAX_ENTRIES:
            return self._refusal(Measure.RESERVATIONS), False
        measure = ceiling.exceeded_by(self._in_sight + hold.amounts)
        if measure is not None:
            would_help = ceiling.exceeded_by(self.used + hold.amounts) is None
            return self._refusal(measure) if would_help else Refusal(measure), False
        self.held[question] = hold
        return None, True

    def release(self, question: str, attempt: str) -> tuple[None, bool]:
        """Give back what *attempt* reserved; what another attempt of the same question reserved stays."""
        hold = self.held.get(question)
        if hold is None or attempt not in hold.attempts:
            return None, False
        others = tuple(other for other in hold.attempts if other != attempt)
        if others:
            self.held[question] = replace(hold, attempts=others)
        else:
            del self.held[question]
        return None, True

    def settle(
        self, call: str, question: str, actual: Amounts | None, *, answer_by_ms: int, now_ms: int, only_held: bool
    ) -> tuple[bool, bool]:
        """Count *actual* instead of what *call* reserved; None is what was reserved. Tells whether it was counted.

        *question* is the one that brings the news. Where nothing is reserved, *actual* is counted all the same,
        unless *only_held*.
        """
        if question in self.answered:
            return True, False
        asked = next((asked for asked, hold in self.held.items() if hold.call == call), None)
        if asked is None and only_held:
            return False, False
        self._forget(now_ms)
        self.began_ms = self.began_ms or now_ms
        reserved = Amounts()
        if asked is not None:
            hold = self.held.pop(asked)
            reserved = hold.amounts
            self.answered[asked] = hold.answer_by_ms + SKEW_MS
        self.used += reserved if actual is None else actual
        self.answered[question] = answer_by_ms + SKEW_MS
        return True, True

    @property
    def _in_sight(self) -> Amounts:
        """What is used once all that is reserved is."""
        amounts = [hold.amounts for hold in self.held.values()]
        return self.used + Amounts(
            sum(reserved.tool_calls for reserved in amounts),
            sum(reserved.tokens for reserved in amounts),
            sum(reserved.cost for reserved in amounts),
        )

    def _refusal(self, measure: Measure) -> Refusal:
        return Refusal(measure, min((hold.until_ms for hold in self.held.values()), default=None))

    def _expire(self, now_ms: int, *, spend: bool) -> None:
        self._forget(now_ms)
        for question in [question for question, hold in self.held.items() if hold.until_ms <= now_ms]:
            hold = self.held.pop(question)
            if spend:
                self.used += hold.amounts

    def _forget(self, now_ms: int) -> None:
        for question in [question for question, until_ms in self.answered.items() if until_ms <= now_ms]:
            del self.answered[question]
