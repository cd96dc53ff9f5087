"""Everything that is fuzzed, each with its share of the cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.fuzz.answers import Answers, Headers
from tests.fuzz.configuration import Declarations, KeyFiles, SettingsFiles, TrustFiles
from tests.fuzz.paths import Paths
from tests.fuzz.questions import Questions, Subjects
from tests.fuzz.target import Target
from tests.fuzz.wire import Wire

TARGETS: Final[Mapping[str, tuple[Callable[[], Target], int]]] = {
    "answers": (Answers, 30),
    "questions": (Questions, 20),
    "headers": (Headers, 15),
    "declarations": (Declarations, 10),
    "paths": (Paths, 10),
    "subjects": (Subjects, 5),
    "trust": (TrustFiles, 4),
    "wire": (Wire, 4),
    "settings": (SettingsFiles, 1),
    "keys": (KeyFiles, 1),
}
