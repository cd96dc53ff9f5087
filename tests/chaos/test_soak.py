"""The soak, short: every kind of fault once."""

from __future__ import annotations

import pytest

from tests.chaos.plan import KINDS, make_plan
from tests.chaos.soak import Soak, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.timeout(180)
async def test_whatever_fails_nothing_is_permitted_without_its_verdicts_and_everything_comes_back(
    stage: Stage,
) -> None:
    report = await Soak(stage, make_plan(seed=3, emissions=3500)).run()
    assert report.told == []
    assert report.shortcomings == []
    assert {met.kind for met in report.met} == set(KINDS)
