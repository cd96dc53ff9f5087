"""What a budget is told: limits, whose they are and for how long, and what models cost."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hookbus_interceptors.budget.account import Ceiling
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.store import StoreSettings

#: In which costs are counted: whole numbers, so that no sum of prices drifts.
NANO_USD: Final = 1_000_000_000
DAY_S: Final = 86400


class Scope(StrEnum):
    """Whose budget it is."""

    TENANT = "tenant"
    ACTOR = "actor"
    AGENT = "agent"
    SESSION = "session"


class Limit(BaseModel):
    """What each of one scope may use in one window; at least one of the four numbers is given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Each session, each actor, each tenant; several are each combination of them.
    per: tuple[Scope, ...] = Field(min_length=1)
    #: ``day`` is the calendar day in UTC; ``total`` has no end.
    window: Literal["total", "day"] = "total"
    tool_calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: Decimal | None = Field(default=None, ge=0)
    #: Seconds since the first question of the scope in the window.
    elapsed_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.tool_calls is None and self.tokens is None and self.cost_usd is None and self.elapsed_s is None:
            raise ValueError("give at least one of tool_calls, tokens, cost_usd, elapsed_s")
        if len(set(self.per)) < len(self.per):
            raise ValueError("per names a scope twice")
        return self

    @property
    def ceiling(self) -> Ceiling:
        """The same numbers in the units of accounts."""
        return Ceiling(
            self.tool_calls,
            self.tokens,
            None if self.cost_usd is None else int(self.cost_usd * NANO_USD),
            None if self.elapsed_s is None else int(self.elapsed_s * 1000),
        )


class Price(BaseModel):
    """What a model costs, in USD for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the cost in billionths of a USD, rounded up."""
        exact = (self.input * input_tokens + self.output * output_tokens) * (NANO_USD // 1_000_000)
        return int(exact.to_integral_value("ROUND_CEILING"))


class BudgetConfiguration(Configuration):
    """The limits of a fleet, all of which hold, and how reservations are made."""

    limits: tuple[Limit, ...] = Field(min_length=1)
    #: By the model's id; ``*`` is any other. A model without a price is refused where a cost is limited.
    prices: dict[str, Price] = Field(default_factory=dict)
    #: The longest that a call runs. A reservation that nothing has settled by then has expired.
    lease_s: float = Field(default=300.0, gt=0, le=DAY_S)
    #: What an expired reservation becomes: given back, or counted as used.
    unsettled: Literal["returned", "spent"] = "returned"
    #: What is reserved for a prompt: its bytes as JSON, divided by this. 1 is never too little.
    bytes_per_token: float = Field(default=3.0, ge=1)
    #: What is reserved for an answer whose call names no maximum.
    output_tokens: int = Field(default=4096, ge=0)
    #: How long a scope without a window is remembered after its last use.
    forget_s: int = Field(default=30 * DAY_S, ge=60)
    store: StoreSettings = StoreSettings(bucket="hookbus-budget")

    @model_validator(mode="after")
    def _one_account_each(self) -> Self:
        accounts = [(frozenset(limit.per), limit.window) for limit in self.limits]
        if len(set(accounts)) < len(accounts):
            raise ValueError("two limits have the same per and window; write them as one")
        if self.forget_s < self.lease_s:
            raise ValueError("forget_s is at least lease_s")
        return self

    def price(self, model: str) -> Price | None:
        """Return what *model* costs; None where nobody says."""
        return self.prices.get(model) or self.prices.get("*")

    @property
    def limits_cost(self) -> bool:
        """Whether any limit is one of cost."""
        return any(limit.cost_usd is not None for limit in self.limits)
