"""What an agent raises, besides the standard's :class:`agent_hooks.InterceptionBlocked`.

AgentError
├── InstallationRefused
│   ├── SecondInstallation
│   └── HalfInstallation
├── ToolSchemaError
├── HookContractError
├── MaxTurnsExceeded
├── ModelFailed
│   └── StreamTruncated
└── SessionMisused
    └── PointRepeated
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_hooks import InterceptionPoint


class AgentError(Exception):
    """An agent could not be built, or a run could not go on. No message holds any payload."""


class InstallationRefused(AgentError):
    """The pieces handed to an agent do not make one complete set of interception points."""


class SecondInstallation(InstallationRefused):
    """Something in the agent is already mediated, so a point would be emitted twice for one call."""

    def __init__(self, what: str, instead: str) -> None:
        self.what = what
        super().__init__(f"{what} is already mediated; {instead}")


class HalfInstallation(InstallationRefused):
    """A path of the agent would reach no interceptor."""

    def __init__(self, what: str, missing: str) -> None:
        self.what = what
        self.missing = missing
        super().__init__(f"{what} is only half installed: {missing}")


class ToolSchemaError(AgentError):
    """No JSON schema can be derived from a function; give the tool an explicit one."""

    def __init__(self, tool: str, why: str) -> None:
        self.tool = tool
        super().__init__(f"no schema for the arguments of tool {tool!r}: {why}; give an explicit schema")


class HookContractError(AgentError):
    """A plain hook returned something other than it promises. What it guards does not happen."""

    def __init__(self, hook: str, expected: str, got: str) -> None:
        self.hook = hook
        super().__init__(f"{hook} must return {expected}, not {got}")


class MaxTurnsExceeded(AgentError):
    """The model still asked for tools after ``max_turns`` model calls."""

    def __init__(self, max_turns: int) -> None:
        self.max_turns = max_turns
        super().__init__(
            f"no final answer within max_turns={max_turns} model calls; raise max_turns to allow more"
        )


class ModelFailed(AgentError):
    """The model call itself failed; there is no response to evaluate (§12.1). The cause is chained."""

    def __init__(self, error_type: str) -> None:
        self.error_type = error_type
        super().__init__(f"the model call failed: {error_type}")


class StreamTruncated(ModelFailed):
    """The model's stream ended without a finish reason."""

    def __init__(self) -> None:
        super().__init__("the stream ended without a finish reason")


class SessionMisused(AgentError):
    """A session was used outside its bracket, twice at once, or under an id that is live already."""


class PointRepeated(SessionMisused):
    """A point was about to be emitted a second time for one call."""

    def __init__(self, point: InterceptionPoint, key: Sequence[str]) -> None:
        self.point = point
        self.key = tuple(key)
        super().__init__(f"{point.value} was already emitted for this call")
