"""Interceptors that worker processes of these tests run."""

from __future__ import annotations

import asyncio
from typing import Any


class Never:
    """Never answers."""

    async def intercept(self, _context: dict[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError


class Always:
    """Allows everything."""

    async def intercept(self, _context: dict[str, Any]) -> dict[str, Any]:
        return {"decision": "allow"}
