"""What a worker raises; every message says what to do, and none holds a word of a payload.

HookbusError (hookbus)
├── InterceptorNotFound    ``package.module:attr`` names nothing that can be imported
├── NotAnInterceptor       the object has no ``intercept`` and cannot be called
├── NotConfigurable        the object has no ``from_config``
├── SubscriptionRefused    the server does not permit this worker's subscription
├── InterceptorHangs       as many calls hang as the worker has slots
└── NotAsked               ``question()`` outside a question
"""

from __future__ import annotations

from hookbus import HookbusError


class InterceptorNotFound(HookbusError, ImportError):
    """``target`` names nothing that can be imported; ``why`` says which part of it."""

    def __init__(self, target: str, why: str) -> None:
        self.target = target
        self.why = why
        super().__init__(
            f"no interceptor at {target!r}: {why}; write it as package.module:attr, importable from this directory"
        )


class NotAnInterceptor(HookbusError, TypeError):
    """The object of type ``type_name`` cannot be asked; ``why`` says what is missing."""

    def __init__(self, type_name: str, why: str) -> None:
        self.type_name = type_name
        self.why = why
        super().__init__(
            f"{type_name} is not an interceptor: {why}; give a function of one context, an object with "
            "intercept(context), or a class of such objects that takes no arguments"
        )


class NotConfigurable(HookbusError, TypeError):
    """The object of type ``type_name`` takes no configuration file."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        super().__init__(
            f"{type_name} takes no configuration: it has no from_config(path, table); "
            "leave --interceptor-config out, or name a class that has one"
        )


class SubscriptionRefused(HookbusError, PermissionError):
    """The server does not permit this worker to subscribe to ``subject`` (contract, section 1)."""

    def __init__(self, subject: str, queue: str) -> None:
        self.subject = subject
        self.queue = queue
        super().__init__(
            f"the server does not permit the subscription to {subject!r} in the queue group {queue!r}; "
            "check the worker's credentials (HOOKBUS_CREDS), its --name and its tenant"
        )


class InterceptorHangs(HookbusError, RuntimeError):
    """``calls`` calls of the interceptor still run although their questions expired: there is no slot left."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        super().__init__(
            f"{calls} calls of the interceptor hang, as many as the worker has slots; it was drained. "
            "Start it again, and give the interceptor time limits of its own"
        )


class NotAsked(HookbusError, LookupError):
    """``question()`` was called where no question is being answered."""

    def __init__(self) -> None:
        super().__init__("no question is being answered here; question() works inside a worker's interceptor")
