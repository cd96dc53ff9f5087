"""What becomes durable, and when: never before its covering verdict (§6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from agent_hooks import InterceptionBlocked, Verdict

from hookbus_client.agent import Entry, InMemoryHistory, MaxTurnsExceeded

from .scripted import Rules, ScriptedModel, agent, calls, says, transform

pytestmark = pytest.mark.anyio


class Journal(InMemoryHistory):
    """A history that notes the size of every append."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        super().__init__(entries)
        self.appended: list[int] = []

    async def append(self, entries: Sequence[Entry]) -> None:
        self.appended.append(len(entries))
        await super().append(entries)


def look(at: str) -> str:
    return f"seen {at} RAW"


def roles(history: InMemoryHistory) -> list[Any]:
    return [message["role"] for message in history.messages]


async def test_a_run_becomes_durable_as_a_whole_after_its_output_verdict() -> None:
    history = Journal()
    at_output: list[int] = []
    rules = Rules(output=lambda context: at_output.append(len(history.messages)) or Verdict.allow())
    model = ScriptedModel(calls(("look", {"at": "x"})), says("done"))
    await agent(model, rules, tools=[look], history=history).run("Go")
    assert at_output == [0]
    assert history.appended == [4]
    assert roles(history) == ["user", "assistant", "tool", "assistant"]


async def test_per_model_call_a_turn_becomes_durable_with_its_tool_results() -> None:
    history = Journal()
    model = ScriptedModel(calls(("look", {"at": "x"})), calls(("look", {"at": "y"})), says("done"))
    await agent(model, Rules(), tools=[look], history=history, durable="model_call").run("Go")
    assert history.appended == [3, 2, 1]
    assert roles(history) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("point", ["input", "pre_model_call", "post_model_call", "output"])
@pytest.mark.parametrize("durable", ["run", "model_call"])
async def test_a_denied_run_leaves_the_history_unchanged(point: str, durable: Any) -> None:
    before = Entry({"role": "user", "content": "Earlier."})
    history = InMemoryHistory([before])
    desk = agent(
        ScriptedModel(says("SECRET")),
        Rules(**{point: Verdict.deny(reason="no")}),
        history=history,
        durable=durable,
    )
    with pytest.raises(InterceptionBlocked):
        await desk.run("Go")
    assert await history.load() == (before,)


async def test_per_model_call_a_denied_answer_leaves_the_turns_before_it() -> None:
    history = InMemoryHistory()
    rules = Rules(output=Verdict.deny(reason="no"))
    model = ScriptedModel(calls(("look", {"at": "x"})), says("SECRET"))
    with pytest.raises(InterceptionBlocked):
        await agent(model, rules, tools=[look], history=history, durable="model_call").run("Go")
    assert roles(history) == ["user", "assistant", "tool"]
    assert "SECRET" not in str(history.messages)


async def test_a_run_that_ends_in_an_error_leaves_the_history_unchanged() -> None:
    history = InMemoryHistory()
    model = ScriptedModel(calls(("look", {"at": "x"})))
    with pytest.raises(MaxTurnsExceeded):
        await agent(model, Rules(), tools=[look], history=history, max_turns=1).run("Go")
    assert history.messages == []


async def test_what_is_durable_is_what_the_verdicts_left() -> None:
    history = InMemoryHistory()
    rules = Rules(
        input=transform("$target.content", "GO"),
        post_tool_call=transform("$target", "seen"),
        output=transform("$target.content", "DONE"),
    )
    model = ScriptedModel(calls(("look", {"at": "x"})), says("done"))
    await agent(model, rules, tools=[look], history=history).run("Go")
    contents = [message["content"] for message in history.messages]
    assert contents == ["GO", None, "seen", "DONE"]


async def test_a_denied_tool_result_is_not_durable() -> None:
    history = InMemoryHistory()
    model = ScriptedModel(calls(("look", {"at": "x"})), says("done"))
    rules = Rules(post_tool_call=Verdict.deny(reason="tainted"))
    await agent(model, rules, tools=[look], history=history).run("Go")
    assert "RAW" not in str(history.messages)


async def test_a_history_is_what_the_next_session_begins_with() -> None:
    history, model = InMemoryHistory(), ScriptedModel(says("One."), says("Two."))
    desk = agent(model, Rules(), history=history, instructions="Be brief.")
    await desk.run("First")
    await desk.run("Second")
    assert [message["content"] for message in model.asked[1]] == ["Be brief.", "First", "One.", "Second"]
    assert "system" not in roles(history)


async def test_a_run_returns_only_after_its_history_has_been_written() -> None:
    class Full(InMemoryHistory):
        async def append(self, entries: Sequence[Entry]) -> None:
            raise OSError("disk full")

    stream = agent(ScriptedModel(says("Hi.")), Rules(), history=Full()).stream("Go")
    with pytest.raises(OSError, match="disk full"):
        [text async for text in stream]
