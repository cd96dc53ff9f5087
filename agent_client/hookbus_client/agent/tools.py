"""Tools: plain functions with a JSON schema."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_type_hints, overload

import anyio.to_thread
from pydantic import PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import ArgsKwargs

from hookbus_client.agent.errors import ToolSchemaError
from hookbus_client.agent.labels import Labels


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool produced. A tool may return one to say ``is_error`` without raising."""

    value: Any
    is_error: bool = False
    labels: Labels = ()


@dataclass(frozen=True)
class Tool:
    """A tool the model may call.

    ``call`` takes the arguments as one dict and returns a JSON-like value or a
    :class:`ToolResult`; what it raises becomes an error text that the model reads.
    ``schema`` is the JSON schema of the arguments. ``source`` is the function or agent it was
    made from, which the agent inspects when it is built.
    """

    name: str
    call: Callable[[dict[str, Any]], Awaitable[Any]]
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    source: object = None

    def to_openai(self) -> dict[str, Any]:
        """Return the tool as chat completions take it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.schema)}
        return {"type": "function", "function": function}

    def to_context(self) -> dict[str, Any]:
        """Return the tool as ``pre_model_call`` declares it (§4.5)."""
        return {"name": self.name, "description": self.description, "schema": dict(self.schema)}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, schema: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Return *function*, sync or async, as a :class:`Tool`; also a decorator.

    The schema comes from its signature, annotations and docstring (any of the usual styles), and
    its arguments are validated against it before it runs. An explicit *schema* replaces both: the
    arguments then arrive as the model wrote them. A sync function runs in a thread. Raises
    :class:`ToolSchemaError` when an annotation has no JSON schema.
    """
    if function is None:
        return lambda wrapped: _from_function(wrapped, name, description, schema)
    return _from_function(function, name, description, schema)


def _from_function(
    function: Callable[..., Any], name: str | None, description: str | None, schema: Mapping[str, Any] | None
) -> Tool:
    named = name or str(getattr(function, "__name__", type(function).__name__))
    summary, parameters = _documentation(function)
    if schema is None:
        schema, invoke = _derive(function, named, parameters)
    else:
        invoke = _plain(function)
    return Tool(
        name=named,
        description=summary if description is None else description,
        schema=schema,
        call=_threaded(invoke, in_thread=not inspect.iscoroutinefunction(function)),
        source=function,
    )


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    # Imported here: only tools made from functions need it.
    import docstring_parser

    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    parts = (parsed.short_description, parsed.long_description)
    described = {p.arg_name: p.description for p in parsed.params if p.description}
    return "\n\n".join(part for part in parts if part), described


def _derive(
    function: Callable[..., Any], name: str, described: Mapping[str, str]
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    if not kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}:
        raise ToolSchemaError(name, "every parameter must have a name the model can use")
    try:
        # A function has no TypeForm, and pydantic takes it all the same.
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", _annotated(function)))
        schema = adapter.json_schema()
    except (PydanticUserError, PydanticInvalidForJsonSchema, NameError, TypeError) as error:
        raise ToolSchemaError(name, type(error).__name__) from error
    for parameter, text in described.items():
        if parameter in schema.get("properties", {}):
            schema["properties"][parameter].setdefault("description", text)
    return schema, lambda args: adapter.validate_python(ArgsKwargs((), args))


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with its annotations resolved where it was defined, which may be any module."""
    defined = function
    while isinstance(defined, functools.partial):
        defined = defined.func
    if not inspect.isroutine(defined):
        defined = type(defined).__call__

    def annotated(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    annotated.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # inspect reads it
    annotated.__annotations__ = get_type_hints(defined, include_extras=True)
    return annotated


def _plain(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda args: function(**args)


def _threaded(
    invoke: Callable[[dict[str, Any]], Any], *, in_thread: bool
) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def call(args: dict[str, Any]) -> Any:
        if in_thread:
            # Abandoned on cancellation: a run that is over does not wait for a thread that hangs.
            run = functools.partial(invoke, args)
            result = await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
        else:
            result = invoke(args)
        return await result if inspect.isawaitable(result) else result

    return call
