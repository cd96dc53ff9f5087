"""What the endpoint says of a text, and why it may have said nothing that counts.

HookbusError (hookbus)
├── Unjudged           the text was not judged; ``why`` is one of a closed set
└── EndpointClosed     the interceptor runs without its ``lifespan``
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from hookbus import HookbusError


class Judgement(msgspec.Struct, frozen=True):
    """What the endpoint says of one text."""

    #: Whether it was flagged for something that the configuration does not name.
    flagged: bool
    #: A score from 0 to 1 for each category of the configuration.
    scores: Mapping[str, float]


class Why(enum.StrEnum):
    """Why a text was not judged."""

    UNREACHABLE = "unreachable"
    LATE = "late"
    BROKEN_OFF = "broken-off"
    REDIRECT = "redirect"
    STATUS = "status"
    TOO_LARGE = "too-large"
    NOT_JSON = "not-json"
    MALFORMED = "malformed"
    CATEGORY_MISSING = "category-missing"
    SCORE_INVALID = "score-invalid"
    TOO_LONG = "too-long"


_SENTENCES: Final[Mapping[Why, str]] = {
    Why.UNREACHABLE: "no connection to the moderation endpoint could be made",
    Why.LATE: "the moderation endpoint did not answer in time",
    Why.BROKEN_OFF: "the moderation endpoint broke off its answer",
    Why.REDIRECT: "the moderation endpoint redirects, which is not followed",
    Why.STATUS: "the moderation endpoint answered with an HTTP error",
    Why.TOO_LARGE: "the answer of the moderation endpoint is larger than is read",
    Why.NOT_JSON: "the answer of the moderation endpoint is not JSON",
    Why.MALFORMED: "the answer of the moderation endpoint is not of the configured shape",
    Why.CATEGORY_MISSING: "a configured category is missing in the answer of the moderation endpoint",
    Why.SCORE_INVALID: "a score in the answer of the moderation endpoint is no number from 0 to 1",
    Why.TOO_LONG: "there is more text than is judged",
}


class Unjudged(HookbusError):
    """The text was not judged; ``status`` is the HTTP status where that is why. Quotes nothing."""

    def __init__(self, why: Why, status: int | None = None) -> None:
        self.why = why
        self.status = status
        shown = "" if status is None else f" ({status})"
        super().__init__(f"Not judged: {_SENTENCES[why]}{shown}.")


class EndpointClosed(HookbusError, RuntimeError):
    """No connections are held: the interceptor's ``lifespan`` was not entered."""

    def __init__(self) -> None:
        super().__init__("the moderation endpoint is not opened; run content in a worker, or enter its lifespan")
