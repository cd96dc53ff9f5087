"""Every exception hookbus raises, and nothing of a payload in any of them.

HookbusError
├── SettingsInvalid        a setting is missing or wrong
├── CannotConnect          no server could be joined at the start
├── BusDown                not connected now, or the write could not be flushed
├── BodyTooLarge           headers and body exceed what the connection carries
├── Undecodable            bytes that are not the JSON this contract allows
├── OutOfDomain            a value that the wire cannot carry exactly
├── HeadersMalformed       header bytes that are not NATS/1.0 headers
└── QuestionFailed         a question ended without a verdict
"""

from __future__ import annotations

from hookbus.failures import Failure


class HookbusError(Exception):
    """The base of every exception that hookbus raises."""


class SettingsInvalid(HookbusError, ValueError):
    """A setting is missing or wrong; the message names it and says what would be right."""


class CannotConnect(HookbusError, OSError):
    """No server of ``urls`` could be joined in time; ``why`` is a type name or the server's own words."""

    def __init__(self, urls: tuple[str, ...], why: str) -> None:
        self.urls = urls
        self.why = why
        super().__init__(
            f"no NATS server could be joined at {', '.join(urls)} ({why}); "
            "start one with `hookbus server`, or set HOOKBUS_URL (and HOOKBUS_CREDS) to yours"
        )


class BusDown(HookbusError, ConnectionError):
    """The connection is down, reconnecting or closed, or too much of what was written is still unsent."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the bus cannot be reached: {why}")


class BodyTooLarge(HookbusError, ValueError):
    """Headers and body together exceed what this connection carries. Nothing was sent."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"{size_bytes} bytes exceed the {limit_bytes} that this connection carries; "
            "raise max_payload on the server or send less"
        )


class Undecodable(HookbusError, ValueError):
    """The bytes are not JSON as the contract allows it (duplicate keys, NaN, depth, encoding, trailing bytes)."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"not JSON as this contract allows it: {why}")


class OutOfDomain(HookbusError, ValueError):
    """A value cannot cross the wire exactly (AGENT-HOOKS-0.1 §4.4); ``why`` names its kind, never the value."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"cannot be carried exactly as JSON: {why}")


class HeadersMalformed(HookbusError, ValueError):
    """Header bytes that are not NATS/1.0 headers in UTF-8 with each name at most once."""


class QuestionFailed(HookbusError):
    """A question ended without a verdict; ``failure`` says how (contract, section 4)."""

    def __init__(self, failure: Failure, interceptor: str) -> None:
        self.failure = failure
        self.interceptor = interceptor
        super().__init__(failure.sentence(interceptor))
