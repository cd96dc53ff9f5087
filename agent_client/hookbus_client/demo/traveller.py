"""The demo's model, as a script: it reads the conversation, books, and heeds refusals.

It holds no state: what it says next follows from the messages alone, as with a real model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hookbus_client.demo.chat_wire import Message, PastCall, Reply, Tool, ToolCall

_OFFER = re.compile(r"^train (?P<train>\w+),.*: (?P<classes>[\w, ]+)$", re.MULTILINE)
_BOOKED = "Booked:"


def traveller(messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
    """Return the next step: find the trains, book the best class not yet refused, or say how it ended."""
    asked_at = max(index for index, message in enumerate(messages) if message.role == "user")
    earlier, current = messages[:asked_at], messages[asked_at:]
    searches = [answer for call, answer in _answered_calls(messages) if call.function.name == "find_trains"]
    if not searches:
        return _call("find_trains", to="Mar del Plata", date="Friday")

    attempts = [pair for pair in _answered_calls(current) if pair[0].function.name == "book_ticket"]
    if attempts and attempts[-1][1].startswith(_BOOKED):
        return Reply(_report(attempts))
    if attempts and "approval" not in attempts[-1][1]:
        return Reply(f"I could not book the seat, and I will not try another way: {attempts[-1][1]}")

    booked_before = [
        (call.arguments["train"], call.arguments["seat_class"])
        for call, answer in _answered_calls(earlier)
        if answer.startswith(_BOOKED)
    ]
    refused = [call.arguments["seat_class"] for call, _ in attempts]
    for train, seat_class in booked_before[-1:] or _offered(searches[-1]):
        if seat_class not in refused:
            return _call("book_ticket", train=train, seat_class=seat_class)
    return Reply("There is no seat that I may book: " + (attempts[-1][1] if attempts else searches[-1]))


def _offered(search: str) -> Iterator[tuple[str, str]]:
    """Yield train and class for the first train of a search result, the most comfortable class first."""
    offer = _OFFER.search(search)
    if offer is not None:
        for seat_class in offer["classes"].split(", "):
            yield offer["train"], seat_class


def _report(attempts: Sequence[tuple[PastCall, str]]) -> str:
    *refused, (_, ticket) = attempts
    reasons = "".join(f" I tried {call.arguments['seat_class']} before that. {answer}" for call, answer in refused)
    return ticket + reasons


def _answered_calls(messages: Sequence[Message]) -> Iterator[tuple[PastCall, str]]:
    """Yield each tool call with the text that answered it, in order."""
    answers = {message.tool_call_id: message.text for message in messages if message.role == "tool"}
    for message in messages:
        for call in message.calls:
            if call.id in answers:
                yield call, answers[call.id]


def _call(name: str, **arguments: str) -> Reply:
    return Reply(tool_calls=[ToolCall(name, arguments)])
