"""``approval-gate``: the calls that a person sees before they run, whoever asked for them.

What it stops, until somebody approves: a call that meets a rule, by its tool, an argument at any depth, an amount,
the tenant, the agent, the actor, or because the tool has not been used before. What it cannot: know whether an
approval was wise, and join several small amounts into a large one (that is ``budget``). How it fails: an amount
that is no number is above every threshold, a use that the host does not remember is the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hookbus.codec import Json
from hookbus_interceptors.amounts import number_in
from hookbus_interceptors.arguments import Argument, arguments_of
from hookbus_interceptors.authoring import (
    PostToolCallContext,
    PreToolCallContext,
    Verdict,
    allow,
    escalate,
    post_tool_call,
    pre_tool_call,
)
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.effects import only_reads
from hookbus_interceptors.tool_names import ToolPatterns, matches, own_name

#: Labels what a tool gave whose first use was to be approved, followed by the tool's name.
USED: Final = "approval-gate:used:"


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error:
        raise ValueError("is not a regular expression") from None
    return pattern


class Rule(BaseModel):
    """What is to be approved: a call that meets everything which the rule says."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Stands in the reason, ``approval-gate:NAME``.
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    #: What the person is told, and what they should look at.
    message: str
    tools: ToolPatterns = ("*",)
    except_tools: ToolPatterns = ()
    #: Only tools that do more than read, by the words of their names.
    acting: bool = False
    #: Tenants, agents and actors by their ids, and kinds of actor: ``human``, ``service``, ``agent``.
    tenants: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    actors: frozenset[str] | None = None
    actor_kinds: frozenset[str] | None = None
    #: Names of the arguments that the rest is about, at any depth: ``*amount*``. Alone: that there is one.
    argument: str | None = None
    #: It is more than this. What is no number is.
    above: float | None = None
    #: It is one of these.
    equals: tuple[str | bool | int | float, ...] | None = None
    #: It is none of these, or there is none.
    unless: tuple[str | bool | int | float, ...] | None = None
    #: This regular expression is found in it.
    contains: Annotated[str, AfterValidator(_compiles)] | None = None
    #: No call of this tool has gone through in the conversation.
    first_use: bool = False
    #: Who should decide, for whatever asks people.
    approver: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        about = (self.above, self.equals, self.unless, self.contains)
        if self.argument is None and any(each is not None for each in about):
            raise ValueError("says what an argument must be, but not which argument")
        return self

    def meets_argument(self, args: Json) -> str | None:
        """Return the place of an argument that meets the rule; ``""`` when it needs none, None when none does."""
        if self.argument is None:
            return ""
        found = [each for each in arguments_of(args) if fnmatchcase(each.name, self.argument)]
        if self.unless is not None:
            if not found:
                return "an argument that is missing"
            found = [each for each in found if not _is_one_of(each.value, self.unless)]
        return next((each.place for each in found if self._meets(each)), None)

    def _meets(self, argument: Argument) -> bool:
        value = argument.value
        if self.above is not None:
            amount = number_in(value)
            # Not >, which NaN would pass.
            if amount is not None and amount <= self.above:
                return False
        if self.equals is not None and not _is_one_of(value, self.equals):
            return False
        return self.contains is None or re.search(self.contains, str(value)) is not None


class ApprovalGateConfiguration(Configuration):
    """The rules, in order: the first that a call meets gives the reason."""

    rules: tuple[Rule, ...] = ()
    #: Namespaces that source labels come back under (§5.4).
    namespaces: tuple[str, ...] = ("approval_gate", "hookbus")


class ApprovalGate(Configured[ApprovalGateConfiguration]):
    """Has a person decide about the calls that a rule meets."""

    @pre_tool_call
    def judge(self, context: PreToolCallContext) -> Verdict:
        """Escalate a call that a rule meets, else allow."""
        call = context.tool_call
        met = [(rule, place) for rule, place in self._met(context)]
        if not met:
            return allow()
        rule, place = met[0]
        parameters: dict[str, Json] = {"tool": call.name, "rules": [each.name for each, _ in met]}
        parameters |= {"argument": place} if place else {}
        parameters |= {"approver": rule.approver} if rule.approver else {}
        return escalate(f"approval-gate:{rule.name}", rule.message, parameters=parameters)

    @post_tool_call
    def remember(self, context: PostToolCallContext) -> Verdict:
        """Label the result of a tool whose first use is to be approved: it has now been used."""
        name = context.tool_call.name
        remembered = any(rule.first_use and matches(name, rule.tools) for rule in self.configuration.rules)
        return allow(labels=[USED + own_name(name)] if remembered else [])

    def _met(self, context: PreToolCallContext) -> Iterator[tuple[Rule, str]]:
        call = context.tool_call
        for rule in self.configuration.rules:
            if not matches(call.name, rule.tools) or matches(call.name, rule.except_tools):
                continue
            if rule.acting and only_reads(call.name, call.args):
                continue
            if rule.first_use and self._was_used(context):
                continue
            who = (
                (rule.tenants, context.tenant_id),
                (rule.agents, context.agent.id),
                (rule.actors, context.actor.id),
                (rule.actor_kinds, context.actor.kind),
            )
            if any(wanted is not None and given not in wanted for wanted, given in who):
                continue
            if (place := rule.meets_argument(call.args)) is not None:
                yield rule, place

    def _was_used(self, context: PreToolCallContext) -> bool:
        label = USED + own_name(context.tool_call.name)
        return any(label in context.source_labels(name) for name in self.configuration.namespaces)


def _is_one_of(value: Json, values: tuple[str | bool | int | float, ...]) -> bool:
    # In Python True is 1; in a rule it is not.
    return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values)
