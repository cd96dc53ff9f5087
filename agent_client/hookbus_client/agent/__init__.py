"""A small agent for any OpenAI-compatible endpoint, with every point of AGENT-HOOKS-0.1."""

from __future__ import annotations

from hookbus_client.agent.agent import Agent
from hookbus_client.agent.emissions import Emitter, IncrementalEmitter
from hookbus_client.agent.errors import (
    AgentError,
    HalfInstallation,
    HookContractError,
    InstallationRefused,
    MaxTurnsExceeded,
    ModelFailed,
    PointRepeated,
    SecondInstallation,
    SessionMisused,
    StreamTruncated,
    ToolSchemaError,
)
from hookbus_client.agent.events import Event, Watcher
from hookbus_client.agent.history import Entry, History, InMemoryHistory
from hookbus_client.agent.hooks import Hooks
from hookbus_client.agent.installation import mark_mediated
from hookbus_client.agent.loop import RunResult
from hookbus_client.agent.model import Chunk, Model, ModelResponse, StreamEnd, TextChunk, ToolCall
from hookbus_client.agent.openai_model import OpenAIModel
from hookbus_client.agent.session import RunStream, Session
from hookbus_client.agent.tools import Tool, ToolResult, tool

__all__ = [
    "Agent",
    "AgentError",
    "Chunk",
    "Emitter",
    "Entry",
    "Event",
    "HalfInstallation",
    "History",
    "HookContractError",
    "Hooks",
    "InMemoryHistory",
    "IncrementalEmitter",
    "InstallationRefused",
    "MaxTurnsExceeded",
    "Model",
    "ModelFailed",
    "ModelResponse",
    "OpenAIModel",
    "PointRepeated",
    "RunResult",
    "RunStream",
    "SecondInstallation",
    "Session",
    "SessionMisused",
    "StreamEnd",
    "StreamTruncated",
    "TextChunk",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSchemaError",
    "Watcher",
    "mark_mediated",
    "tool",
]
