"""Workers replaced one after the other, while agents emit."""

from __future__ import annotations

import msgspec
import pytest

from tests.chaos.agents import CASTINGS, Casting
from tests.chaos.plan import Fault, Plan
from tests.chaos.soak import Soak, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]


def patient(casting: Casting) -> Casting:
    """Return the same agent with so much time that only a question that is lost is denied, and without hedges."""
    seats = tuple(msgspec.structs.replace(seat, timeout_s=15.0, hedged=False) for seat in casting.seats)
    return msgspec.structs.replace(casting, seats=seats, budget_s=None)


async def test_a_rolling_restart_of_the_fleet_denies_nothing(stage: Stage) -> None:
    plan = Plan(seed=5, emissions=600, faults=(Fault("rolling_restart", "fleet", begins=100, lasts=100),))
    # So few lanes that no worker is ever busy.
    report = await Soak(stage, plan, castings=[patient(casting) for casting in CASTINGS], lanes=4).run()
    assert report.told == []
    assert report.causeless_denies == {}
    assert report.permitted + report.decided_denies == report.emissions
    assert report.permitted > 500
