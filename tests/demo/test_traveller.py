"""The scripted traveller heeds what it reads: results, refusals, silence."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hookbus_client.demo.chat_wire import FunctionCall, Message, PastCall, Reply
from hookbus_client.demo.travel import PROMPT, SECOND_PROMPT, TravelDesk
from hookbus_client.demo.traveller import traveller

#: Answers one tool call: what the model reads.
Answer = Callable[[PastCall], str]


def converse(messages: list[Message], prompt: str, answer: Answer) -> Reply:
    """Play one run to its end, adding to *messages*; return the traveller's last words."""
    messages.append(Message("user", prompt))
    while (reply := traveller(messages, ())).tool_calls:
        calls = [
            PastCall(f"{len(messages)}.{n}", FunctionCall(call.name, msgspec.json.encode(call.arguments).decode()))
            for n, call in enumerate(reply.tool_calls)
        ]
        messages.append(Message("assistant", tool_calls=calls))
        messages.extend(Message("tool", answer(call), tool_call_id=call.id) for call in calls)
    messages.append(Message("assistant", reply.content))
    return reply


def at(desk: TravelDesk, refusals: dict[str, str]) -> Answer:
    """A desk that refuses the named classes with the given texts."""

    def answer(call: PastCall) -> str:
        refusal = refusals.get(call.arguments.get("seat_class", "search"))
        return refusal or str(getattr(desk, call.function.name)(**call.arguments))

    return answer


def classes(desk: TravelDesk) -> list[str]:
    return [booking.seat_class for booking in desk.bookings]


def test_it_books_the_most_comfortable_seat_when_nobody_objects() -> None:
    desk = TravelDesk()
    converse([], PROMPT, at(desk, {}))
    assert classes(desk) == ["first"]


def test_refused_for_want_of_approval_it_books_the_next_class_and_says_why() -> None:
    desk = TravelDesk()
    reply = converse([], PROMPT, at(desk, {"first": "refused: needs a manager's approval"}))
    assert classes(desk) == ["pullman"]
    assert "needs a manager's approval" in (reply.content or "")


def test_when_no_class_is_left_it_says_so() -> None:
    desk = TravelDesk()
    reply = converse([], PROMPT, at(desk, dict.fromkeys(["first", "pullman", "tourist"], "needs approval")))
    assert classes(desk) == []
    assert "needs approval" in (reply.content or "")


def test_refused_for_any_other_reason_it_stops_and_says_why() -> None:
    desk = TravelDesk()
    reply = converse([], PROMPT, at(desk, {"first": "nobody answered"}))
    assert classes(desk) == []
    assert "nobody answered" in (reply.content or "")


def test_without_a_search_result_it_books_nothing() -> None:
    desk = TravelDesk()
    reply = converse([], PROMPT, at(desk, {"search": "nobody answered"}))
    assert classes(desk) == []
    assert "nobody answered" in (reply.content or "")


def test_asked_for_the_same_again_it_repeats_the_booking_that_succeeded() -> None:
    desk = TravelDesk()
    messages: list[Message] = []
    answer = at(desk, {"first": "needs approval"})
    converse(messages, PROMPT, answer)
    converse(messages, SECOND_PROMPT, answer)
    assert classes(desk) == ["pullman", "pullman"]
    assert desk.bookings[0] == desk.bookings[1]
