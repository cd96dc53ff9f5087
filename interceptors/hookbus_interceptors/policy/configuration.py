"""The rules of ``policy``, in one file."""

from __future__ import annotations

from typing import Literal, Self

from agent_hooks import InterceptionPoint
from agent_hooks.path import PathError, parse
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.policy.expression import ExpressionText


class Rule(BaseModel):
    """What becomes of a question of which ``when`` is true."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Stands in the reason, ``policy:NAME``.
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")
    points: tuple[InterceptionPoint, ...] = Field(default=(InterceptionPoint.PRE_TOOL_CALL,), min_length=1)
    #: A condition in CEL over the blocks of the context.
    when: ExpressionText
    then: Literal["allow", "deny", "escalate", "transform"]
    #: What whoever reads the verdict is told.
    message: str | None = None
    #: Who should decide, where a person is asked.
    approver: str | None = None
    #: What is replaced, ``$target.amount``, and an expression for what takes its place.
    path: str | None = None
    value: ExpressionText | None = None

    @field_validator("path")
    @classmethod
    def _is_path(cls, path: str | None) -> str | None:
        try:
            if path is not None:
                parse(path)
        except PathError:
            raise ValueError("is not a path such as $target.amount") from None
        return path

    @model_validator(mode="after")
    def _complete(self) -> Self:
        transforms = self.then == "transform"
        if (self.path is not None, self.value is not None) != (transforms, transforms):
            raise ValueError("has path and value exactly if it transforms")
        if transforms and not all(point.transform_permitted for point in self.points):
            raise ValueError("transforms at a point that permits no transform")
        if self.approver is not None and self.then != "escalate":
            raise ValueError("names an approver and does not escalate")
        return self


class PolicyConfiguration(Configuration):
    """The rules. Their order decides nothing."""

    rules: tuple[Rule, ...] = ()

    @field_validator("rules")
    @classmethod
    def _names_differ(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError("two rules have the same name")
        return rules
