"""The five plain hooks, as local callables.

The same functions can run as interceptor workers instead; see ``hookbus_interceptors.hooks``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hookbus_client.agent.errors import HookContractError
from hookbus_client.agent.projection import Unprojectable, project

Hook = Callable[..., Any]

REFUSED = "The call was refused."


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that ``before_tool_execution`` did not authorise, and the text the model reads."""

    text: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that take part in a run, sync or async, each optional.

    A turn is one model call and the tools it asks for. ``call`` is ``{"id", "name", "args"}``,
    with the arguments as the verdict at ``pre_tool_call`` left them, so what a hook authorises is
    what runs. Every hook gets its own copy. What a hook raises ends the run; what it guards does
    not happen.

    - ``before_turn(turn, messages)``
    - ``before_provider_call(messages)`` returns the messages to send in this one call. It runs
      before ``pre_model_call``: nothing that it adds escapes the verdict.
    - ``before_tool_execution(call)`` returns ``{"authorize": bool, "result": str}``. Refused: the
      tool never runs, and the model reads ``result`` as an error result.
    - ``after_tool_execution(call, result)`` gets ``{"value", "is_error"}`` and returns what the
      model reads, for every call: refused, denied, unknown and failed ones too. It runs before
      ``post_tool_call``; the text of a call that policy denied passes only the next
      ``pre_model_call`` (§6.2).
    - ``after_turn(turn, message)`` gets the turn's assistant message; for the final turn, the
      answer as the verdict at ``output`` left it.
    """

    before_turn: Hook | None = None
    before_provider_call: Hook | None = None
    before_tool_execution: Hook | None = None
    after_tool_execution: Hook | None = None
    after_turn: Hook | None = None

    async def turn_begins(self, turn: int, messages: list[dict[str, Any]]) -> None:
        """Run ``before_turn``."""
        if self.before_turn is not None:
            await _call(self.before_turn, turn, project(messages))

    async def messages_to_send(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what ``before_provider_call`` makes of *messages*."""
        if self.before_provider_call is None:
            return messages
        returned = await _call(self.before_provider_call, project(messages))
        if not is_messages(returned):
            raise HookContractError("before_provider_call", "a list of messages", type(returned).__name__)
        return list(returned)

    async def refusal(self, call: dict[str, Any]) -> Refusal | None:
        """Return the refusal of ``before_tool_execution``, or None when it authorises the call."""
        if self.before_tool_execution is None:
            return None
        returned = await _call(self.before_tool_execution, project(call))
        if not isinstance(returned, dict) or not isinstance(returned.get("authorize"), bool):
            expected = '{"authorize": bool, "result": str}'
            raise HookContractError("before_tool_execution", expected, type(returned).__name__)
        if returned["authorize"]:
            return None
        text = returned.get("result")
        return Refusal(text if isinstance(text, str) else REFUSED)

    async def result_to_read(self, call: dict[str, Any], value: Any, is_error: bool) -> Any:
        """Return what ``after_tool_execution`` makes of a result."""
        if self.after_tool_execution is None:
            return value
        result = {"value": project(value), "is_error": is_error}
        returned = await _call(self.after_tool_execution, project(call), result)
        if returned is None:
            # A redacting hook without its return statement must not let the original through.
            raise HookContractError("after_tool_execution", "what the model reads", "None")
        try:
            return project(returned)
        except Unprojectable as error:
            raise HookContractError("after_tool_execution", "text or JSON", error.type_name) from None

    async def turn_ended(self, turn: int, message: dict[str, Any]) -> None:
        """Run ``after_turn``."""
        if self.after_turn is not None:
            await _call(self.after_turn, turn, project(message))


def is_messages(value: Any) -> bool:
    """Tell whether *value* is a list of chat messages, each with a role."""
    return isinstance(value, list) and all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in value
    )


async def _call(hook: Hook, *arguments: Any) -> Any:
    returned = hook(*arguments)
    return await returned if inspect.isawaitable(returned) else returned
