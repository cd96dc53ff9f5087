"""Budgets over a whole fleet: tool calls, tokens, cost and elapsed time, reserved before and settled after."""

from hookbus_interceptors.budget.configuration import BudgetConfiguration, Limit, Price, Scope
from hookbus_interceptors.budget.interceptor import Budget

__all__ = ["Budget", "BudgetConfiguration", "Limit", "Price", "Scope"]
