"""Tools from plain functions: their schemas, their threads, what they return and raise."""

from __future__ import annotations

import functools
import threading
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from hookbus_client.agent import Tool, ToolResult, ToolSchemaError, tool

from .scripted import Rules, ScriptedModel, agent, calls, says

pytestmark = pytest.mark.anyio


class Seat(BaseModel):
    coach: int
    window: bool = True


def find_trains(to: str, date: str = "today", *, seat_class: Literal["first", "second"] = "second") -> list[str]:
    """Find trains.

    Only direct ones.

    Args:
        to: Where to.
        date: Which day.
    """
    return [f"{to} {date} {seat_class}"]


async def read_by_the_model(made: Any, args: dict[str, Any], *interceptors: Any) -> str:
    """Run one call of *made* in an agent and return what the model reads."""
    named = made if isinstance(made, Tool) else tool(made)
    model = ScriptedModel(calls((named.name, args)), says("done"))
    await agent(model, *(interceptors or (Rules(),)), tools=[named]).run("go")
    return str(model.asked[1][-1]["content"])


def test_the_schema_comes_from_signature_annotations_and_docstring() -> None:
    made = tool(find_trains)
    assert made.name == "find_trains"
    assert made.description == "Find trains.\n\nOnly direct ones."
    assert made.schema["required"] == ["to"]
    assert made.schema["additionalProperties"] is False
    assert made.schema["properties"]["to"]["description"] == "Where to."
    assert made.schema["properties"]["seat_class"]["enum"] == ["first", "second"]
    assert made.to_openai()["function"]["parameters"] == made.schema


def test_an_annotated_description_wins_over_the_docstring() -> None:
    def f(x: Annotated[int, Field(description="annotated")]) -> None:
        """Do.

        :param x: documented
        """

    assert tool(f).schema["properties"]["x"]["description"] == "annotated"


def test_the_decorator_takes_a_name_a_description_and_an_explicit_schema() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}

    @tool(name="search", description="Search.", schema=schema)
    def f(q: str) -> str:
        return q

    assert (f.name, f.description, f.schema) == ("search", "Search.", schema)


def test_a_function_without_a_json_schema_is_refused_by_name() -> None:
    def stars(*args: int) -> None: ...

    def opaque(x: threading.Lock) -> None: ...

    for function in (stars, opaque):
        with pytest.raises(ToolSchemaError, match=function.__name__):
            tool(function)


async def test_arguments_arrive_as_their_annotations_say() -> None:
    got: list[Any] = []

    async def book(seat: Seat, passengers: list[str]) -> Seat:
        got.append((seat, passengers))
        return seat

    read = await read_by_the_model(book, {"seat": {"coach": 3}, "passengers": ["Ana"]})
    assert got == [(Seat(coach=3, window=True), ["Ana"])]
    assert read == '{"coach": 3, "window": true}'


async def test_arguments_that_do_not_fit_become_text_and_the_function_does_not_run() -> None:
    ran: list[int] = []

    def f(x: int) -> None:
        ran.append(x)

    read = await read_by_the_model(f, {"x": "many", "y": 1})
    assert "x: Input should be a valid integer" in read
    assert "y: Unexpected keyword argument" in read
    assert ran == []


async def test_a_sync_tool_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    def sync() -> int:
        return threading.get_ident()

    async def coroutine() -> int:
        return threading.get_ident()

    assert int(await read_by_the_model(sync, {})) != threading.get_ident()
    assert int(await read_by_the_model(coroutine, {})) == threading.get_ident()


async def test_a_tool_that_raises_becomes_text_that_passes_its_verdict_as_an_error() -> None:
    def f() -> None:
        raise LookupError("no such train")

    rules = Rules()
    assert await read_by_the_model(f, {}, rules) == "LookupError: no such train"
    result = rules.at("post_tool_call")[0]["tool_result"]
    assert (result["value"], result["is_error"]) == ("LookupError: no such train", True)


async def test_a_tool_may_signal_an_error_without_raising() -> None:
    async def call(args: dict[str, Any]) -> ToolResult:
        return ToolResult({"code": 404}, is_error=True)

    rules = Rules()
    assert await read_by_the_model(Tool("fetch", call), {"url": "x"}, rules) == '{"code": 404}'
    assert rules.at("post_tool_call")[0]["tool_result"]["is_error"] is True


async def test_a_tool_may_be_a_bound_method() -> None:
    class Desk:
        def price(self, km: int) -> int:
            """Price a trip."""
            return 2 * km

    assert await read_by_the_model(Desk().price, {"km": 21}) == "42"


async def test_annotations_are_resolved_where_a_callable_was_defined() -> None:
    class Desk:
        def hold(self, seat: Seat) -> Seat:
            return seat

        async def __call__(self, seat: Seat) -> Seat:
            return seat

    def hold(desk: str, seat: Seat) -> Seat:
        return seat

    for callable_ in (Desk().hold, Desk(), functools.partial(hold, "north")):
        made = tool(name="hold")(callable_)
        assert list(made.schema["properties"]) == ["seat"]
        assert await read_by_the_model(made, {"seat": {"coach": 1}}) == '{"coach": 1, "window": true}'


async def test_an_explicit_schema_leaves_the_arguments_as_the_model_wrote_them() -> None:
    def f(**anything: Any) -> Any:
        return anything

    made = tool(schema={"type": "object"})(f)
    assert await read_by_the_model(made, {"x": "1"}) == '{"x": "1"}'


async def test_the_error_text_of_a_tool_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    def f() -> None:
        raise ValueError("SECRET")

    with caplog.at_level("DEBUG"):
        await read_by_the_model(f, {})
    assert "SECRET" not in caplog.text
