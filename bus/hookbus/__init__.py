"""AGENT-HOOKS-0.1 out of process: the contract, the connection, and what both sides share."""

from __future__ import annotations

import os
from typing import Any

from hookbus.connection import Connection, Message, Serving
from hookbus.errors import (
    BodyTooLarge,
    BusDown,
    CannotConnect,
    HeadersMalformed,
    HookbusError,
    OutOfDomain,
    QuestionFailed,
    SettingsInvalid,
    Undecodable,
)
from hookbus.failures import Failure
from hookbus.remote import RemoteInterceptor
from hookbus.settings import Settings, read_settings

__all__ = [
    "BodyTooLarge",
    "BusDown",
    "CannotConnect",
    "Connection",
    "Failure",
    "HeadersMalformed",
    "HookbusError",
    "Message",
    "OutOfDomain",
    "QuestionFailed",
    "RemoteInterceptor",
    "Serving",
    "Settings",
    "SettingsInvalid",
    "Undecodable",
    "connect",
    "read_settings",
]


def connect(
    url: str | None = None,
    *,
    tenant: str | None = None,
    creds: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Connection:
    """Return a connection, to be entered with ``async with``.

    Settings come from the keywords here (any of :class:`Settings`), else from ``HOOKBUS_URL``,
    ``HOOKBUS_TENANT``, ``HOOKBUS_CREDS`` and their like, else from the TOML file *config* or ``HOOKBUS_CONFIG``.
    Raises :class:`SettingsInvalid`.
    """
    return Connection(read_settings(config, url=url, tenant=tenant, creds=creds, **settings))
