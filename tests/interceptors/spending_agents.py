"""Agents in a process of their own: each asks for a tool call, some settle it, and then they hang until killed.

``python -m tests.interceptors.spending_agents URL SESSION NAME AGENTS SETTLED`` writes ``ADMITTED SETTLED``.
"""

from __future__ import annotations

import asyncio
import sys

import hookbus
from tests.interceptors.shared_store import tool_call, tool_result


async def spend(url: str, session: str, name: str, agents: int, settling: int) -> None:
    async with hookbus.connect(url) as bus:
        ask = bus.interceptor("budget").intercept

        async def act(number: int) -> bool:
            verdict = await ask(tool_call(agent=f"{name}-{number}", session=session))
            return bool(verdict["decision"] == "allow")

        acted = await asyncio.gather(*(act(number) for number in range(agents)))
        admitted = [number for number, allowed in enumerate(acted) if allowed]
        settled = admitted[:settling]
        for number in settled:
            assert (await ask(tool_result(agent=f"{name}-{number}", session=session)))["decision"] == "allow"
        print(len(admitted), len(settled), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
