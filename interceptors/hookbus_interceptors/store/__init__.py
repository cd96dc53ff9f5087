"""What all workers of an interceptor share: values in JetStream, changed by compare-and-set."""

from hookbus_interceptors.store.attempts import digest, question_name
from hookbus_interceptors.store.bucket import Bucket, Entry, StoreSettings
from hookbus_interceptors.store.errors import (
    Contended,
    EntryUnreadable,
    RestartNeeded,
    StoreDown,
    StoreError,
    StoreRefused,
    StoreSilent,
)
from hookbus_interceptors.store.values import Change, Step, Values

__all__ = [
    "Bucket",
    "Change",
    "Contended",
    "Entry",
    "EntryUnreadable",
    "RestartNeeded",
    "Step",
    "StoreDown",
    "StoreError",
    "StoreRefused",
    "StoreSettings",
    "StoreSilent",
    "Values",
    "digest",
    "question_name",
]
