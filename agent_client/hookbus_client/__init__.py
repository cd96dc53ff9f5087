"""The agent's side of hookbus: the emitter that asks over the bus, and what is built on it."""

from __future__ import annotations

from hookbus_client.declaration import host_registry, register_remote
from hookbus_client.emitter import BusEmitter
from hookbus_client.gate import NotAVerdict

__all__ = ["BusEmitter", "NotAVerdict", "host_registry", "register_remote"]
