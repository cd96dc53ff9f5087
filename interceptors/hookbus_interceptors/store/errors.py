"""Why the store did not say yes; an interceptor lets each out, so that the question is denied as ``raised``.

HookbusError (hookbus)
└── StoreError
    ├── StoreDown          not connected, or not opened
    ├── StoreSilent        no answer within the question's time
    ├── StoreRefused       JetStream answered with an error, or is not there
    ├── EntryUnreadable    what stands under a key is no value of this interceptor, or was erased
    ├── Contended          others changed the value at every attempt
    └── RestartNeeded      a reloaded configuration names another store
"""

from __future__ import annotations

from hookbus import HookbusError


class StoreError(HookbusError):
    """The base: the shared value is not known, so nothing may be permitted on its account."""


class StoreDown(StoreError, ConnectionError):
    """The store's connection is down, or the interceptor runs without its ``lifespan``."""

    def __init__(self) -> None:
        super().__init__("the store is not connected; it needs a NATS server with JetStream")


class StoreSilent(StoreError, TimeoutError):
    """The store did not answer within the time that the question had left."""

    def __init__(self) -> None:
        super().__init__(
            "the store does not answer; look at the JetStream server, and whether its user may publish there"
        )


class StoreRefused(StoreError):
    """JetStream answered ``code``: 503 where it is not there, else an error of its API."""

    def __init__(self, code: int, what: str) -> None:
        self.code = code
        super().__init__(f"the store refused {what} ({code}); is JetStream on, and does the bucket exist?")


class EntryUnreadable(StoreError, ValueError):
    """An entry is not what this interceptor wrote, or a deletion stands in its place."""

    def __init__(self) -> None:
        super().__init__("an entry of the store was erased or is not of this interceptor; put {} to begin anew")


class Contended(StoreError):
    """Others changed the value at each of ``attempts`` attempts."""

    def __init__(self, attempts: int) -> None:
        self.attempts = attempts
        super().__init__(f"others changed the same value at each of {attempts} attempts; run fewer workers")


class RestartNeeded(StoreError):
    """A reload cannot move what is counted to another store."""

    def __init__(self) -> None:
        super().__init__("another store is used only after a restart")
