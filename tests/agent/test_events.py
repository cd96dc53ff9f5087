"""Events only watch, and see what verdicts and hooks left."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from agent_hooks import InterceptionBlocked, Verdict

from hookbus_client.agent import Event, Hooks

from .scripted import Rules, ScriptedModel, agent, calls, says, transform

pytestmark = pytest.mark.anyio


def book(seat: str) -> str:
    return f"booked {seat} RAW"


async def watch(*interceptors: Any, hooks: Hooks | None = None, responses: Any = None) -> list[Event]:
    events: list[Event] = []
    model = ScriptedModel(*(responses or (calls(("book", {"seat": "12A"})), says("SECRET answer"))))
    desk = agent(model, *(interceptors or (Rules(),)), tools=[book], hooks=hooks, watchers=[events.append])
    with contextlib.suppress(InterceptionBlocked):
        await desk.run("Book")
    return events


async def test_the_events_of_a_run_come_in_order() -> None:
    assert [event.name for event in await watch()] == [
        "run-start",
        "turn-start",
        "model-start",
        "model-end",
        "tool-start",
        "tool-end",
        "turn-end",
        "turn-start",
        "model-start",
        "model-end",
        "turn-end",
        "run-end",
    ]


async def test_watchers_see_values_as_verdicts_and_hooks_left_them() -> None:
    rules = Rules(
        pre_tool_call=transform("$target.seat", "40F"),
        post_tool_call=lambda context: transform("$target", context["target"] + " VERDICT"),
        output=transform("$target.content", "answer"),
    )
    hooks = Hooks(after_tool_execution=lambda call, result: result["value"].replace("RAW", "HOOK"))
    events = {event.name: event for event in await watch(rules, hooks=hooks)}
    assert events["tool-start"].facts["call"]["args"] == {"seat": "40F"}
    assert events["tool-end"].facts["result"] == "booked 40F HOOK VERDICT"
    assert events["turn-end"].facts["message"]["content"] == "answer"
    assert events["run-end"].facts == {"outcome": "completed", "output": "answer"}
    assert "SECRET" not in str(events)


async def test_an_answer_is_in_no_event_before_the_output_verdict() -> None:
    before: list[str] = []
    events: list[Event] = []
    rules = Rules(output=lambda context: before.append(str(events)) or Verdict.allow())
    await agent(ScriptedModel(says("SECRET answer")), rules, watchers=[events.append]).run("x")
    assert "SECRET" not in before[0]
    assert events[-1].facts["output"] == "SECRET answer"


@pytest.mark.parametrize("point", ["post_model_call", "output"])
async def test_withheld_content_is_in_no_event(point: str) -> None:
    responses = (says("SECRET answer"),)
    events = await watch(Rules(**{point: Verdict.deny(reason="no")}), responses=responses)
    assert "SECRET" not in str(events)
    assert events[-1].facts == {"outcome": "blocked"}


async def test_a_denied_result_is_in_no_event() -> None:
    events = await watch(Rules(post_tool_call=Verdict.deny(reason="tainted")))
    (end,) = [event for event in events if event.name == "tool-end"]
    assert "RAW" not in str(events)
    assert "tainted" in end.facts["result"]
    assert end.facts["is_error"] is True


async def test_a_refused_call_ends_without_having_started() -> None:
    events = await watch(hooks=Hooks(before_tool_execution=lambda call: {"authorize": False, "result": "no"}))
    names = [event.name for event in events]
    assert "tool-start" not in names
    assert "tool-end" in names


async def test_a_watcher_that_raises_or_vandalises_changes_nothing() -> None:
    kept: list[Any] = []

    def vandal(event: Event) -> None:
        for fact in event.facts.values():
            if isinstance(fact, dict | list):
                fact.clear()
        raise RuntimeError

    model = ScriptedModel(calls(("book", {"seat": "12A"})), says("done"))
    result = await agent(model, Rules(), tools=[book], watchers=[vandal, kept.append]).run("Book")
    assert result.output == "done"
    assert model.asked[1][-1]["content"] == "booked 12A RAW"
    assert len(kept) == 12
    assert kept[2].facts["messages"][0]["content"] == "Book"


def test_a_coroutine_function_cannot_watch() -> None:
    async def watcher(event: Event) -> None: ...

    with pytest.raises(TypeError, match="only watches"):
        agent(ScriptedModel(), Rules(), watchers=[watcher])
