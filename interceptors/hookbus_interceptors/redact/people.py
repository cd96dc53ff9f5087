"""Finds people and places by Presidio. Nothing of it is imported unless a configuration asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import NlpEngineProvider
from presidio_analyzer.predefined_recognizers import SpacyRecognizer

from hookbus_interceptors.redact.configuration import PeopleConfiguration
from hookbus_interceptors.redact.found import Found


class People:
    """Finds the kinds that its configuration names. What is longer than spaCy's own bound raises, which denies."""

    def __init__(self, configuration: PeopleConfiguration) -> None:
        self._configuration = configuration
        models = [{"lang_code": configuration.language, "model_name": configuration.model}]
        engine = NlpEngineProvider(
            nlp_configuration={"nlp_engine_name": "spacy", "models": models}
        ).create_engine()
        languages = [configuration.language]
        registry = RecognizerRegistry(
            recognizers=[SpacyRecognizer(supported_language=configuration.language)], supported_languages=languages
        )
        self._analyzer = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=languages)

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the people and places in *text*. See :class:`Finder`."""
        found = self._analyzer.analyze(
            text,
            self._configuration.language,
            entities=sorted(self._configuration.kinds),
            score_threshold=self._configuration.score,
        )
        for each in found:
            yield Found(each.start, each.end, each.entity_type, 7)
