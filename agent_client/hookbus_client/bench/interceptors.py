"""The interceptors that the bench asks: the same objects in every process and over every transport."""

from __future__ import annotations

import asyncio
from typing import Final

from agent_hooks import ALLOW, AgentContext, Verdict

#: How long :data:`slow` waits for whatever it asks.
WAIT_S: Final = 0.02


class Allow:
    """Allows everything, so that what is measured is everything else."""

    async def intercept(self, context: AgentContext) -> Verdict:
        """Allow."""
        return ALLOW


class Slow:
    """Allows after 20 ms of waiting, one question at a time, as behind one connection to something slow."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def intercept(self, context: AgentContext) -> Verdict:
        """Wait and allow."""
        async with self._turn:
            await asyncio.sleep(WAIT_S)
        return ALLOW


allow: Final = Allow()
slow: Final = Slow()
