"""The agent's side of hookbus: the emitter that asks over the bus, and the agent built on it."""

from __future__ import annotations

from hookbus_client.agent import Agent, Hooks, OpenAIModel, tool
from hookbus_client.declaration import host_registry, register_remote
from hookbus_client.emitter import BusEmitter
from hookbus_client.gate import NotAVerdict

__all__ = [
    "Agent",
    "BusEmitter",
    "Hooks",
    "NotAVerdict",
    "OpenAIModel",
    "host_registry",
    "register_remote",
    "tool",
]
