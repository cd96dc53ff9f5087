"""``schema-guard``: a call must be of a known tool, by its exact name, with arguments that its schema permits.

What it stops: unknown tools, names that only look like known ones (case, another script, full-width letters, ``-``
for ``_``), names qualified by a server that is not permitted, arguments of the wrong shape and arguments that the
schema does not name. What it cannot: judge a value that the schema permits. How it fails: a tool without a schema,
and a schema that is none or that refers to another document, denies.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import jsonschema  # type: ignore[import-untyped]  # its stubs are another distribution
import msgspec
import referencing
from pydantic import field_validator

from hookbus.codec import Json
from hookbus_interceptors.authoring import (
    AgentStartupContext,
    PreToolCallContext,
    Verdict,
    agent_startup,
    allow,
    deny,
    escalate,
    pre_tool_call,
)
from hookbus_interceptors.authoring.context_views import ContextMalformed, Tool
from hookbus_interceptors.configuration import Configuration, FileText
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.tool_names import is_plain_ascii, own_name, spelled

Schema = dict[str, Json]
#: A name that may be told; another may be payload.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: Keywords that name properties from elsewhere: with one of them a schema's own list is not all.
_OPEN_ENDED: Final = frozenset(
    ["additionalProperties", "unevaluatedProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"]
)


class SchemaGuardConfiguration(Configuration):
    """Which tools are known, and how strictly."""

    #: A JSON file of the tools that may be called: a list in the form that a provider or an MCP server gives it.
    catalogue: FileText | None = None
    #: Whether a tool that the catalogue does not name is known when the agent shows its declaration (§4.5).
    trust_shown: bool = True
    #: What becomes of a call of a tool that is not known.
    unknown: Literal["deny", "escalate"] = "deny"
    #: Qualifiers that a name may have before one of the catalogue: ``mcp__github__`` lets ``mcp__github__search``
    #: be ``search``. A catalogue may name qualified tools themselves, too.
    qualifiers: tuple[str, ...] = ()
    #: Whether arguments that a schema does not name are refused, although the schema does not say so.
    closed: bool = True
    #: Whether ``format`` is checked: ``email``, ``date``, ``ipv4`` and the like.
    formats: bool = True

    @field_validator("catalogue")
    @classmethod
    def _is_catalogue(cls, text: str | None) -> str | None:
        if text is not None:
            declarations_in(text)
        return text


class SchemaGuard(Configured[SchemaGuardConfiguration]):
    """Denies a call of a tool that is not known, or with arguments that its schema does not permit."""

    def __init__(self, configuration: SchemaGuardConfiguration) -> None:
        super().__init__(configuration)
        text = configuration.catalogue
        self._schemas = {} if text is None else declarations_in(text)
        self._catalogued = text is not None

    @agent_startup
    def starts(self, context: AgentStartupContext) -> Verdict:
        """Deny an agent whose tools' names are not plain, or not distinct once they are spelled alike."""
        names = context.agent_init.tools_registered
        if not all(map(is_plain_ascii, names)):
            return deny("schema-guard:look-alike", "A registered tool has letters in its name that no tool needs.")
        if len({spelled(name) for name in names}) < len(names):
            return deny("schema-guard:look-alike", "Two registered tools differ only in how they are spelled.")
        return allow()

    @pre_tool_call
    def called(self, context: PreToolCallContext) -> Verdict:
        """Deny a call whose name or arguments are not those of a known tool."""
        call = context.tool_call
        shown = self._shown(context)
        if not is_plain_ascii(call.name):
            return deny("schema-guard:look-alike", "The tool's name has letters in it that no tool needs.")
        schema = self._schema_of(call.name, shown)
        if schema is None:
            if self._is_spelled_like_another(call.name, shown):
                return deny("schema-guard:look-alike", "The tool's name only looks like that of a known tool.")
            message = "No tool of this name is known. Add it to the catalogue if agents may call it."
            refuse = deny if self.configuration.unknown == "deny" else escalate
            return refuse("schema-guard:unknown-tool", message)
        validator = _validator(
            msgspec.json.encode(schema, order="sorted"), self.configuration.closed, self.configuration.formats
        )
        if validator is None:
            return deny(
                "schema-guard:no-schema", "The schema of this tool is not one that can be checked against."
            )
        error = jsonschema.exceptions.best_match(validator.iter_errors(call.args))
        if error is None:
            return allow()
        return deny(
            "schema-guard:arguments", f"{_place(error.absolute_path)} breaks the schema's {error.validator!r}."
        )

    def _shown(self, context: PreToolCallContext) -> Mapping[str, Schema]:
        tools = context.raw.get("tools")
        if not self.configuration.trust_shown or tools is None:
            return {}
        try:
            return {
                tool.name: tool.schema for tool in msgspec.convert(tools, list[Tool]) if tool.schema is not None
            }
        except msgspec.ValidationError:
            raise ContextMalformed("tools") from None

    def _schema_of(self, name: str, shown: Mapping[str, Schema]) -> Schema | None:
        candidates = [name, *(name.removeprefix(each) for each in self.configuration.qualifiers)]
        catalogued = next((self._schemas[each] for each in candidates if each in self._schemas), None)
        return catalogued if catalogued is not None else shown.get(name)

    def _is_spelled_like_another(self, name: str, shown: Mapping[str, Schema]) -> bool:
        known = {*map(spelled, self._schemas), *map(spelled, shown)}
        return bool({spelled(name), own_name(name)} & known)


def declarations_in(catalogue: str) -> dict[str, Schema]:
    """Return the schemas in *catalogue* by the names of their tools. Raises ValueError, which quotes nothing.

    A tool is an object with ``name`` and ``schema``, ``parameters``, ``input_schema`` or ``inputSchema``, alone or
    under ``function``. Two names that are spelled alike are refused: one is there to be taken for the other.
    """
    try:
        listed = msgspec.json.decode(catalogue, type=list[dict[str, Any]])
    except msgspec.DecodeError:
        raise ValueError("is not a JSON list of tools") from None
    found: dict[str, Schema] = {}
    for each in listed:
        tool = each.get("function", each)
        schema = next(
            (tool[key] for key in ("schema", "parameters", "input_schema", "inputSchema") if key in tool), None
        )
        if not isinstance(tool.get("name"), str) or not isinstance(schema, dict):
            raise ValueError("has a tool without a name or a schema")
        if not is_plain_ascii(tool["name"]) or spelled(tool["name"]) in map(spelled, found):
            raise ValueError("has a name that is not plain ASCII, or two that are spelled alike")
        if _validator(msgspec.json.encode(schema, order="sorted"), True, True) is None:
            raise ValueError("has a schema that is none")
        found[tool["name"]] = schema
    return found


@functools.lru_cache(maxsize=1024)
def _validator(schema_json: bytes, closed: bool, formats: bool) -> Any:
    """Return a validator, or None when the schema is none. References lead nowhere but into the schema itself."""
    schema: Schema = msgspec.json.decode(schema_json)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.exceptions.SchemaError:
        return None
    if closed and "properties" in schema and not _OPEN_ENDED & schema.keys():
        schema = {**schema, "additionalProperties": False}
    checker = kind.FORMAT_CHECKER if formats else None
    return kind(schema, registry=referencing.Registry(), format_checker=checker)


def _place(path: Iterable[str | int]) -> str:
    """Return *path* as it may be told: ``recipients[0]``."""
    told = ""
    for step in path:
        if isinstance(step, int):
            told += f"[{step}]"
        else:
            told += ("." if told else "") + (step if _NAME.fullmatch(step) else "…")
    return told or "The arguments"
