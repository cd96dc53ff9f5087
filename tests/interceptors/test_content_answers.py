"""An answer of a moderation endpoint is read strictly: what is missing or wrong is no judgement."""

from __future__ import annotations

from typing import Any

import pytest

from hookbus_interceptors.content import ContentConfiguration
from hookbus_interceptors.content.judging import Judgement, Unjudged, Why
from hookbus_interceptors.content.shapes import at, shape_of

GOOD = {"flagged": False, "categories": {"violence": False}, "category_scores": {"violence": 0.1}}


def settings(**more: Any) -> ContentConfiguration:
    categories = {"violence": {"at": 0.8}}
    return ContentConfiguration.model_validate({"url": "http://host/", "categories": categories, **more})


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, Why.MALFORMED),
        ({**GOOD, "flagged": "false"}, Why.MALFORMED),
        ({**GOOD, "flagged": None}, Why.MALFORMED),
        ({**GOOD, "categories": None}, Why.MALFORMED),
        ({**GOOD, "categories": {"violence": 0}}, Why.MALFORMED),
        ({**GOOD, "category_scores": [0.1]}, Why.MALFORMED),
        ({**GOOD, "category_scores": {}}, Why.CATEGORY_MISSING),
        ({**GOOD, "category_scores": {"Violence": 0.1}}, Why.CATEGORY_MISSING),
        ({**GOOD, "category_scores": {"violence": None}}, Why.CATEGORY_MISSING),
        ({**GOOD, "category_scores": {"violence": "0.1"}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": False}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": [0.1]}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": float("nan")}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": float("inf")}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": 1.01}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": -0.01}}, Why.SCORE_INVALID),
        ({**GOOD, "category_scores": {"violence": 73}}, Why.SCORE_INVALID),
    ],
)
def test_a_result_in_which_anything_is_missing_or_wrong_is_no_judgement(result: Any, why: Why) -> None:
    shape = shape_of(settings())
    with pytest.raises(Unjudged) as raised:
        shape.read({"results": [GOOD, result]}, 2)
    assert raised.value.why is why


@pytest.mark.parametrize(
    "answer", [None, [], "x", {}, {"results": GOOD}, {"results": [GOOD]}, {"results": [GOOD] * 3}]
)
def test_an_answer_without_one_result_for_each_text_is_no_judgement(answer: Any) -> None:
    with pytest.raises(Unjudged) as raised:
        shape_of(settings()).read(answer, 2)
    assert raised.value.why is Why.MALFORMED


def test_a_flag_that_contradicts_its_categories_counts() -> None:
    shape = shape_of(settings())
    for contradicting in [{"flagged": True}, {"categories": {"fraud": True}}]:
        assert shape.read({"results": [{**GOOD, **contradicting}]}, 1)[0].flagged
    assert shape.read({"results": [GOOD]}, 1) == [Judgement(False, {"violence": 0.1})]


def test_a_plain_answer_is_read_at_its_paths_alone() -> None:
    shape = shape_of(
        settings(shape="plain", flag="verdict.bad", categories={"x": {"at": 0.5, "score": "data.0.probs.1"}})
    )
    answer = {"verdict": {"bad": True}, "data": [{"probs": [0.1, 0.9]}]}
    assert shape.read(answer, 1) == [Judgement(True, {"x": 0.9})]
    for wrong, why in [
        ({**answer, "verdict": {}}, Why.MALFORMED),
        ({**answer, "verdict": {"bad": "no"}}, Why.MALFORMED),
        ({**answer, "data": []}, Why.CATEGORY_MISSING),
        ({**answer, "data": [{"probs": [0.1]}]}, Why.CATEGORY_MISSING),
        ({**answer, "data": [{"probs": [0.1, 9]}]}, Why.SCORE_INVALID),
    ]:
        with pytest.raises(Unjudged) as raised:
            shape.read(wrong, 1)
        assert raised.value.why is why
    labelled = [{"label": "A", "score": 1}, {"label": "B", "score": 2}, {"label": "B", "score": 3}]
    assert at(labelled, "label=A.score") == 1
    # Two of one label: neither is the one that was meant.
    assert at(labelled, "label=B.score") is None
    assert at(labelled, "-1.score") is None
