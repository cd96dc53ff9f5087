"""Finds people and places by Presidio. Nothing of it is imported unless a configuration asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import spacy  # type: ignore[import-not-found]  # optional, as all of Presidio
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry  # type: ignore[import-not-found]
from presidio_analyzer.nlp_engine import NlpEngineProvider  # type: ignore[import-not-found]
from presidio_analyzer.predefined_recognizers import SpacyRecognizer  # type: ignore[import-not-found]

from hookbus import HookbusError
from hookbus_interceptors.redact.configuration import PeopleConfiguration
from hookbus_interceptors.redact.found import Found


class ModelMissing(HookbusError, ValueError):
    """The ``model`` that the configuration names is not installed. Nothing is downloaded."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(f"people.model: {model} is not installed here; install it beside the worker")


class People:
    """Finds the kinds that its configuration names. What is longer than spaCy's own bound raises, which denies.

    Raises :class:`ModelMissing`.
    """

    def __init__(self, configuration: PeopleConfiguration) -> None:
        if not spacy.util.is_package(configuration.model):
            # Presidio would fetch it from the network.
            raise ModelMissing(configuration.model)
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
