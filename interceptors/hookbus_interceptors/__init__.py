"""Workers: whatever answers for an interceptor, in a process of its own."""

from hookbus_interceptors.current import CurrentQuestion, question
from hookbus_interceptors.errors import (
    InterceptorHangs,
    InterceptorNotFound,
    NotAnInterceptor,
    NotAsked,
    SubscriptionRefused,
)
from hookbus_interceptors.worker import Worker

__all__ = [
    "CurrentQuestion",
    "InterceptorHangs",
    "InterceptorNotFound",
    "NotAnInterceptor",
    "NotAsked",
    "SubscriptionRefused",
    "Worker",
    "question",
]
