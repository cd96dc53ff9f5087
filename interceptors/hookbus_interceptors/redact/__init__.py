"""``redact``: personal data and secrets are replaced, hashed or refused wherever a transform is permitted."""

from hookbus_interceptors.redact.configuration import PeopleConfiguration, RedactConfiguration
from hookbus_interceptors.redact.interceptor import Redact

__all__ = ["PeopleConfiguration", "Redact", "RedactConfiguration"]
