"""People and places are found where Presidio and a model are installed, else nothing is fetched."""

from __future__ import annotations

import importlib.util

import pytest

from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.redact import PeopleConfiguration, Redact, RedactConfiguration


def redact(model: str, **settings: object) -> Redact:
    people = PeopleConfiguration.model_validate({"model": model, **settings})
    return Redact(RedactConfiguration(people=people))


def test_a_configuration_that_asks_for_what_is_not_installed_makes_no_interceptor() -> None:
    missing = ModuleNotFoundError if importlib.util.find_spec("presidio_analyzer") is None else ValueError
    with pytest.raises(missing):
        redact("no_such_model")


@pytest.mark.filterwarnings("ignore")  # what others' packages warn of is not ours
def test_people_and_places_are_found_beside_all_else() -> None:
    pytest.importorskip("presidio_analyzer")
    models = pytest.importorskip("spacy").util.get_installed_models()
    if not (english := [each for each in models if each.startswith("en_core_web")]):
        pytest.skip("no English model is installed")
    client = TestClient(redact(english[0], kinds=["PERSON", "LOCATION"]), timeout_s=60)
    answer = client.output("Please write to John Smith in Berlin, bob@corp.com.")
    assert answer.target["content"] == "Please write to [PERSON] in [LOCATION], [EMAIL]."
    assert client.output(answer.target["content"]).transform is None
