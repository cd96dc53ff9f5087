"""Workers: whatever answers for an interceptor, in a process of its own."""

from hookbus_interceptors.current import CurrentQuestion, decided_by, question
from hookbus_interceptors.errors import (
    InterceptorHangs,
    InterceptorNotFound,
    NotAnInterceptor,
    NotAsked,
    SubscriptionRefused,
)
from hookbus_interceptors.hooks import (
    HookContractError,
    after_tool_execution,
    after_turn,
    before_provider_call,
    before_tool_execution,
    before_turn,
)
from hookbus_interceptors.worker import Worker

__all__ = [
    "CurrentQuestion",
    "HookContractError",
    "InterceptorHangs",
    "InterceptorNotFound",
    "NotAnInterceptor",
    "NotAsked",
    "SubscriptionRefused",
    "Worker",
    "after_tool_execution",
    "after_turn",
    "before_provider_call",
    "before_tool_execution",
    "before_turn",
    "decided_by",
    "question",
]
