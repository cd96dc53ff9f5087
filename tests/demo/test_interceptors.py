"""What the demo's two interceptors refuse and rewrite, asked directly."""

from __future__ import annotations

from typing import Any

import pytest
from agent_hooks import AgentContextBuilder, Decision, Transform, Verdict

from hookbus_client.demo.policy import TravelPolicy
from hookbus_client.demo.redactor import DniRedactor


def contexts() -> AgentContextBuilder:
    return AgentContextBuilder(agent_id="travel", framework="test", session_id="one")


def ask_policy(name: str, args: dict[str, Any]) -> Verdict:
    return TravelPolicy().intercept(contexts().pre_tool_call(call_id="c", name=name, args=args))


@pytest.mark.parametrize(
    "seat_class", ["first", "First Class", " FIRST", "1st", "platinum", "", None, 1, ["pullman"]]
)
def test_a_class_that_is_not_known_to_be_below_first_needs_a_manager(seat_class: object) -> None:
    verdict = ask_policy("book_ticket", {"train": "301", "seat_class": seat_class})
    assert verdict.is_liftable
    assert verdict.reason == "first class needs a manager's approval"


def test_a_booking_without_a_class_needs_a_manager() -> None:
    assert ask_policy("book_ticket", {"train": "301"}).is_liftable


@pytest.mark.parametrize("seat_class", ["pullman", "Tourist"])
def test_a_class_below_first_is_booked_without_asking(seat_class: str) -> None:
    assert ask_policy("book_ticket", {"train": "301", "seat_class": seat_class}) == Verdict.allow()


def test_the_policy_has_nothing_against_searching() -> None:
    assert ask_policy("find_trains", {"to": "Mar del Plata", "date": "Friday"}) == Verdict.allow()


@pytest.mark.parametrize(
    ("written", "redacted"),
    [
        ("DNI 30.111.222", "DNI ***"),
        ("DNI 30111222", "DNI ***"),
        ("dni: 4.111.222", "dni ***"),
        ("D.N.I. 30.111.222", "D.N.I. ***"),
    ],
)
def test_a_document_number_is_redacted_however_it_is_written(written: str, redacted: str) -> None:
    verdict = DniRedactor().intercept(contexts().input(content=f"I am {written}, hello."))
    assert verdict.transform == Transform("$target", {"role": "user", "content": f"I am {redacted}, hello."})


def test_a_document_number_is_redacted_however_deep_it_stands() -> None:
    messages = [
        {
            "role": "tool",
            "content": [{"type": "text", "text": "DNI 30.111.222"}],
            "seats": 2,
            "DNI 1.111.222": None,
        }
    ]
    verdict = DniRedactor().intercept(contexts().pre_model_call(model_id="m", messages=messages))
    assert verdict.transform is not None
    assert verdict.transform.value == [
        {"role": "tool", "content": [{"type": "text", "text": "DNI ***"}], "seats": 2, "DNI ***": None}
    ]


@pytest.mark.parametrize("text", ["DNI ***", "train 30.111.222", "DNIS 30.111.222", "a DNI of eight digits"])
def test_what_holds_no_document_number_passes_unchanged(text: str) -> None:
    verdict = DniRedactor().intercept(contexts().output(content=text))
    assert verdict.decision is Decision.ALLOW
