"""How much a call of a model takes: an estimate that is reserved before, what was used after."""

from __future__ import annotations

from math import ceil
from typing import Final

import msgspec

from hookbus_interceptors.authoring import PostModelCallContext, PreModelCallContext
from hookbus_interceptors.budget.account import Amounts
from hookbus_interceptors.budget.configuration import BudgetConfiguration

#: How hosts call the most that a model may answer, among its parameters.
_MAXIMA: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def estimated(context: PreModelCallContext, configuration: BudgetConfiguration) -> Amounts | None:
    """Return what the call that is about to be made may take; None where its cost cannot be told."""
    prompt = {"messages": context.messages, "tools": context.raw.get("tools")}
    size_bytes = len(msgspec.json.encode(prompt))
    params = context.model.params
    named = [value for name in _MAXIMA if type(value := params.get(name)) is int and value >= 0]
    output = max(named, default=configuration.output_tokens)
    return _amounts(context.model.id, ceil(size_bytes / configuration.bytes_per_token), output, configuration)


def used(context: PostModelCallContext, configuration: BudgetConfiguration) -> Amounts | None:
    """Return what the call took; None where the agent does not say, or its cost cannot be told."""
    prompt, completion = context.usage.prompt_tokens, context.usage.completion_tokens
    # A negative number would be a gift.
    if prompt is None or completion is None or prompt < 0 or completion < 0:
        return None
    return _amounts(context.model.id, prompt, completion, configuration)


def _amounts(model: str, prompt: int, completion: int, configuration: BudgetConfiguration) -> Amounts | None:
    price = configuration.price(model)
    if price is None:
        return None if configuration.limits_cost else Amounts(tokens=prompt + completion)
    return Amounts(tokens=prompt + completion, cost=price.cost(prompt, completion))
