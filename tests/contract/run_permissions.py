"""Vectors about what the server itself enforces, tried by a plain socket on a server with exactly these grants."""

from __future__ import annotations

from hookbus.server import EmbeddedServer
from tests.contract.raw_nats import RawNats
from tests.contract.vectors import Permission

#: Clause C1.10 for the agent ``travel`` and the workers of ``policy``.
CONFIG = """
authorization {
  users: [
    { user: agent, password: agent, permissions: {
        publish: ["hb.v1.default.ctx.*.*.travel", "hb.v1.default.ctx.*.*.travel.*"]
        subscribe: ["hb.v1.default.ans.*.travel.>"] } }
    { user: worker, password: worker, permissions: {
        publish: ["hb.v1.default.ans.policy.>", "_INBOX.>"]
        subscribe: [
            "hb.v1.default.ctx.policy.> policy", "hb.v1.default.ctx.policy.*.*.*"
            "$SRV.PING", "$SRV.PING.policy", "$SRV.PING.policy.*"
            "$SRV.INFO", "$SRV.INFO.policy", "$SRV.INFO.policy.*"
            "$SRV.STATS", "$SRV.STATS.policy", "$SRV.STATS.policy.*" ] } }
  ]
}
"""


async def permission(vector: Permission, granting: EmbeddedServer) -> None:
    async with RawNats(granting.port, user=vector.role) as raw:
        if vector.does == "publish":
            raw.publish(vector.subject, b"")
        else:
            raw.subscribe(vector.subject, vector.queue or "")
        await raw.flush()
        assert (raw.errors == []) == vector.permitted, raw.errors
