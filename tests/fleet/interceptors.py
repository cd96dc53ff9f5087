"""Interceptors of a fleet's tests."""

from __future__ import annotations

import asyncio
from typing import Any


async def take_a_while(_context: dict[str, Any]) -> dict[str, str]:
    """Say that a question is being answered, and take a while over it."""
    print("asked", flush=True)
    await asyncio.sleep(1.0)
    return {"decision": "allow"}


async def hang(_context: dict[str, Any]) -> dict[str, str]:
    """Say that a question is being answered, and never answer it."""
    print("asked", flush=True)
    await asyncio.Event().wait()
    return {"decision": "allow"}
