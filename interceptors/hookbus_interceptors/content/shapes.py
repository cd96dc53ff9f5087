"""The two ways to ask an endpoint, and the strict reading of what it answers.

Whatever is missing, of another type or out of range raises :class:`Unjudged`; nothing has a default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookbus.codec import Json
from hookbus_interceptors.content.configuration import ContentConfiguration
from hookbus_interceptors.content.judging import Judgement, Unjudged, Why


class Shape(Protocol):
    """How requests and answers look."""

    #: Texts in one request.
    batch: int

    def request(self, texts: Sequence[str]) -> Json:
        """Return the body that asks about *texts*."""

    def read(self, answer: Json, count: int) -> list[Judgement]:
        """Return the judgements of *count* texts in *answer*, in their order. Raises :class:`Unjudged`."""


def shape_of(configuration: ContentConfiguration) -> Shape:
    """Return the shape that *configuration* names."""
    return OpenAIShape(configuration) if configuration.shape == "openai" else PlainShape(configuration)


class OpenAIShape:
    """``{"input": [text, …]}`` and ``{"results": [{"flagged", "categories", "category_scores"}, …]}``."""

    def __init__(self, configuration: ContentConfiguration) -> None:
        self.batch = configuration.batch
        self._model = configuration.model
        self._named = configuration.categories.keys()

    def request(self, texts: Sequence[str]) -> Json:
        """Return the body that asks about *texts*."""
        return {"input": list(texts), **_model(self._model)}

    def read(self, answer: Json, count: int) -> list[Judgement]:
        """Return the judgements of *count* texts in *answer*. Raises :class:`Unjudged`."""
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list) or len(results) != count:
            raise Unjudged(Why.MALFORMED)
        return [self._judgement(result) for result in results]

    def _judgement(self, result: Json) -> Judgement:
        names = "flagged", "categories", "category_scores"
        flagged, categories, scores = map(result.get if isinstance(result, dict) else lambda _: None, names)
        if not isinstance(flagged, bool) or not isinstance(categories, dict) or not isinstance(scores, dict):
            raise Unjudged(Why.MALFORMED)
        # A model that does not know a category says null.
        if not all(met is None or isinstance(met, bool) for met in categories.values()):
            raise Unjudged(Why.MALFORMED)
        met = {name for name, is_met in categories.items() if is_met}
        return Judgement(
            flagged=bool(met - self._named) or (flagged and not met),
            scores={name: _score(scores.get(name)) for name in self._named},
        )


class PlainShape:
    """``{"input": text}`` and any answer with a score for each category, or a flag, at a path."""

    batch = 1

    def __init__(self, configuration: ContentConfiguration) -> None:
        self._model = configuration.model
        self._text_name = configuration.text_name
        self._flag = configuration.flag
        self._scores = {name: category.score or "" for name, category in configuration.categories.items()}

    def request(self, texts: Sequence[str]) -> Json:
        """Return the body that asks about the one text in *texts*."""
        (text,) = texts
        return {self._text_name: text, **_model(self._model)}

    def read(self, answer: Json, count: int) -> list[Judgement]:
        """Return the one judgement in *answer*. Raises :class:`Unjudged`."""
        flagged = False if self._flag is None else at(answer, self._flag)
        if not isinstance(flagged, bool):
            raise Unjudged(Why.MALFORMED)
        return [Judgement(flagged, {name: _score(at(answer, path)) for name, path in self._scores.items()})]


def at(document: Json, path: str) -> Json:
    """Return what stands at *path*, None where nothing does.

    A step is a member's name; in a list it is an index, or ``label=X`` for the only member whose ``label`` is X.
    """
    for step in path.split("."):
        name, equals, value = step.partition("=")
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and equals:
            met = [each for each in document if isinstance(each, dict) and each.get(name) == value]
            document = met[0] if len(met) == 1 else None
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document


def _score(value: Json) -> float:
    if value is None:
        raise Unjudged(Why.CATEGORY_MISSING)
    # A bool is an int to Python, and NaN is not between anything.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Unjudged(Why.SCORE_INVALID)
    return float(value)


def _model(model: str | None) -> dict[str, Json]:
    return {} if model is None else {"model": model}
