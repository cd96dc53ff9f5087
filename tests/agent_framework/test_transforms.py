"""A transform changes what it names, and the rest of a rich message stays what it was."""

from __future__ import annotations

from typing import Any

import pytest
from agent_framework import SKIP_PARSING, Content, Message
from agent_hooks import Verdict

from .bookings import Bookings
from .guarded import At, guarded, replacing
from .scripted import Reply, ScriptedChatClient, calls, says

pytestmark = pytest.mark.anyio

DNI = "DNI 30.111.222"
HIDDEN = "DNI ***"


def hide(value: Any) -> Any:
    """*value* with the document number hidden wherever it stands in it."""
    if isinstance(value, str):
        return value.replace(DNI, HIDDEN)
    if isinstance(value, list):
        return [hide(item) for item in value]
    if isinstance(value, dict):
        return {key: hide(item) for key, item in value.items()}
    return value


def hiding(path: str) -> Any:
    """A verdict that hides the document number in the one member of the target that *path* names."""

    def verdict(context: dict[str, Any]) -> Verdict:
        value = context["target"]
        for name in path.split(".")[1:]:
            value = value[name]
        return replacing(path, hide(value))

    return verdict


async def test_a_transform_of_the_input_reaches_the_model_and_leaves_the_picture_alone(nats_url: str) -> None:
    picture = Content.from_data(b"\x89PNG", "image/png")
    message = Message("user", [Content.from_text(f"I am {DNI}"), picture])
    client = ScriptedChatClient([says("welcome")])
    async with guarded(nats_url, redactor=At("input", hiding("$target.content"))) as guard:
        await guard.agent(client).run(message)

    (read,) = client.requests[0]
    assert [content.type for content in read.contents] == ["text", "data"]
    assert read.text == f"I am {HIDDEN}"
    assert read.contents[1].uri == picture.uri


async def test_a_transform_before_the_model_call_reaches_inside_an_earlier_tool_result(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second"}), says("done")])
    bookings = Bookings(f"booked for {DNI}")
    redactor = At("pre_model_call", hiding("$target"))
    async with guarded(nats_url, redactor=redactor) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert DNI in str(redactor.shown("pre_model_call")[-1])
    assert client.read_results() == [f"booked for {HIDDEN}"]
    asked, called, result = client.requests[-1]
    assert asked.text == "book me a seat"
    assert [content.call_id for content in (*called.contents, *result.contents)] == ["call-1", "call-1"]


async def test_a_transform_of_the_replys_text_keeps_the_tool_call_beside_it(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second"}, text=f"For {DNI}:"), says("done")])
    bookings = Bookings()
    async with guarded(nats_url, redactor=At("post_model_call", hiding("$target.content"))) as guard:
        response = await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == [{"seat_class": "second", "note": ""}]
    assert f"For {HIDDEN}:" in response.text
    assert DNI not in str([message.to_dict() for message in response.messages])


async def test_a_transform_of_the_replys_tool_calls_changes_what_runs(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second", "note": DNI}), says("done")])
    bookings = Bookings()
    policy = At("pre_tool_call", Verdict.allow())
    async with guarded(
        nats_url, redactor=At("post_model_call", hiding("$target.tool_calls")), policy=policy
    ) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == [{"seat_class": "second", "note": HIDDEN}]
    (context,) = policy.shown("pre_tool_call")
    assert context["tool_call"]["args"] == {"seat_class": "second", "note": HIDDEN}


async def test_a_transform_of_the_arguments_is_what_the_tool_runs_with(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second", "note": DNI}), says("done")])
    bookings = Bookings()
    redactor = At("pre_tool_call", hiding("$target.note"))
    async with guarded(nats_url, redactor=redactor) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == [{"seat_class": "second", "note": HIDDEN}]
    (after,) = redactor.shown("post_tool_call")
    assert after["tool_call"]["args"]["note"] == HIDDEN


async def test_a_transform_of_a_structured_result_is_what_the_model_reads(nats_url: str) -> None:
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second"}), says("done")])
    bookings = Bookings({"passenger": {"document": DNI}, "seats": [7, 8]}, result_parser=SKIP_PARSING)
    redactor = At("post_tool_call", hiding("$target.passenger.document"))
    async with guarded(nats_url, redactor=redactor) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    (shown,) = redactor.shown("post_tool_call")
    assert shown["target"] == {"passenger": {"document": DNI}, "seats": [7, 8]}
    (result,) = client.read_results()
    assert HIDDEN in result
    assert DNI not in result
    assert "[7, 8]" in result


async def test_a_transform_of_a_rich_result_keeps_the_content_it_did_not_name(nats_url: str) -> None:
    ticket = Content.from_data(b"%PDF", "application/pdf")
    bookings = Bookings([Content.from_text(f"ticket of {DNI}"), ticket])
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second"}), says("done")])
    async with guarded(nats_url, redactor=At("post_tool_call", hiding("$target"))) as guard:
        await guard.agent(client, [bookings.tool]).run("book me a seat")

    (result,) = [c for c in client.requests[-1][-1].contents if c.type == "function_result"]
    text, kept = result.items
    assert text.text == f"ticket of {HIDDEN}"
    assert kept.uri == ticket.uri


async def test_a_transform_of_the_output_is_what_the_caller_gets(nats_url: str) -> None:
    client = ScriptedChatClient([Reply([Content.from_text(f"Booked for {DNI}")])])
    async with guarded(nats_url, redactor=At("output", hiding("$target.content"))) as guard:
        response = await guard.agent(client).run("hello")

    assert response.text == f"Booked for {HIDDEN}"


async def test_a_transform_that_the_framework_cannot_take_back_runs_nothing(nats_url: str) -> None:
    broken = replacing("$target", "first")
    client = ScriptedChatClient([calls("book_ticket", {"seat_class": "second"})])
    bookings = Bookings()
    async with guarded(nats_url, policy=At("pre_tool_call", broken)) as guard:
        with pytest.raises(Exception, match="pre_tool_call"):
            await guard.agent(client, [bookings.tool]).run("book me a seat")

    assert bookings.made == []
