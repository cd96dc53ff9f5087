"""``content``: every text of a target is judged by a classifier behind an HTTP endpoint.

What it stops: text that the classifier scores at or above a threshold, or flags, at any point and in any part of
the target. What it cannot: what the classifier does not see, such as images, encoded text, and harm that only
several texts together do. How it fails: whatever is not judged in time, in full and in the agreed form denies, and
says why.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec

import hookbus
from hookbus_interceptors.authoring import Context, Verdict, allow, deny, escalate, every_point, replace
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.content.configuration import Action, ContentConfiguration
from hookbus_interceptors.content.endpoint import Endpoint
from hookbus_interceptors.content.judging import Judgement, Unjudged, Why
from hookbus_interceptors.content.passages import NotReplaceable, passages, pieces, replaced
from hookbus_interceptors.current import question
from hookbus_interceptors.recent import Recent

#: The gravest first.
_GRAVITY: Final[tuple[Action, ...]] = ("deny", "escalate", "rewrite")


class _Finding(msgspec.Struct, frozen=True):
    """What one text met."""

    text: str
    place: str
    #: None for a flag that is of no category of the configuration.
    category: str | None
    action: Action

    @property
    def reason(self) -> str:
        return "content:flagged" if self.category is None else f"content:flagged:{self.category}"

    @property
    def message(self) -> str:
        return f"{self.place} is flagged by the classifier" + (f" as {self.category}." if self.category else ".")


class Content(Configured[ContentConfiguration]):
    """Denies, asks about or replaces text that the classifier objects to, and denies what it did not judge."""

    def __init__(self, configuration: ContentConfiguration) -> None:
        super().__init__(configuration)
        self._endpoint = Endpoint(configuration)
        self._recent = Recent[Judgement](configuration.remember, configuration.remember_s)

    @asynccontextmanager
    async def lifespan(self, _bus: hookbus.Connection) -> AsyncIterator[None]:
        """Hold connections to the endpoint open."""
        async with self._endpoint.opened():
            yield

    def take_over(self, previous: Self) -> None:
        """Go on with the connections of *previous*; what it was told is asked again."""
        self._endpoint.take_over(previous._endpoint)

    @every_point
    async def judge(self, context: Context) -> Verdict:
        """Return what the gravest finding in the target asks for, and a deny where a text was not judged."""
        try:
            findings = await self._findings(passages(context.target))
        except Unjudged as error:
            return deny(f"content:unjudged:{error.why}", str(error))
        if not findings:
            return allow()
        gravest = min(findings, key=lambda each: _GRAVITY.index(each.action))
        match gravest.action:
            case "rewrite" if context.point.transform_permitted:
                return self._without(findings, context)
            case "escalate":
                message = f"{gravest.message} Approve if it may pass all the same."
                parameters = {"category": gravest.category, "place": gravest.place}
                return escalate(gravest.reason, message, parameters=parameters)
            case _:
                return deny(gravest.reason, gravest.message)

    async def _findings(self, texts: dict[str, str]) -> list[_Finding]:
        size, overlap = self.configuration.piece, self.configuration.overlap
        cut = {text: pieces(text, size=size, overlap=overlap) for text in texts}
        judged = await self._judgements({piece for each in cut.values() for piece in each})
        return [
            _Finding(text, place, category, action)
            for text, place in texts.items()
            for piece in cut[text]
            for category, action in self._met(judged[piece])
        ]

    async def _judgements(self, wanted: set[str]) -> dict[str, Judgement]:
        if len(wanted) > self.configuration.most:
            raise Unjudged(Why.TOO_LONG)
        known = {piece: judgement for piece in wanted if (judgement := self._recent.find(piece)) is not None}
        new = sorted(wanted - known.keys())
        within_s = min(self.configuration.timeout_s, question().remaining_s - self.configuration.margin_s)
        fresh = dict(zip(new, await self._endpoint.judge(new, within_s=within_s), strict=True))
        for piece, judgement in fresh.items():
            self._recent.keep(piece, judgement)
        return known | fresh

    def _met(self, judgement: Judgement) -> Iterator[tuple[str | None, Action]]:
        for name, category in self.configuration.categories.items():
            if judgement.scores[name] >= category.at:
                yield name, category.action
        if judgement.flagged and self.configuration.flagged != "ignore":
            yield None, self.configuration.flagged

    def _without(self, findings: list[_Finding], context: Context) -> Verdict:
        """Return the target with a notice in place of each text that was found, as one transform."""
        first = findings[0]
        notices = {finding.text: self.configuration.notice for finding in findings}
        try:
            target = replaced(context.target, notices)
        except NotReplaceable:
            return deny(first.reason, f"{first.message} It is a name, which no notice can stand for.")
        return replace("$target", target, reason=first.reason, message=first.message)
