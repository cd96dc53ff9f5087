"""A JWT ``.creds`` file is a credential wherever people have an operator and accounts of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_hooks import AgentContextBuilder

import hookbus
from hookbus.authority.roles import Role, grants
from hookbus.server import EmbeddedServer
from hookbus_client import BusEmitter
from hookbus_interceptors import Worker
from tests.authority.jwts import JwtAuthority

pytestmark = pytest.mark.anyio


def creds(authority: JwtAuthority, folder: Path, role: Role, name: str) -> Path:
    granted = grants(role, "default", name)
    path = folder / f"{name}.creds"
    return authority.creds(path, name, publish=list(granted.publish), subscribe=list(granted.subscribe))


async def emitted(bus: hookbus.Connection, agent: str) -> tuple[str, str | None]:
    builder = AgentContextBuilder(agent_id=agent, framework="tests", session_id="s")
    emitter = BusEmitter(timeout=20.0).register(bus.interceptor("policy"))
    record = await emitter.emit_unchecked(builder.pre_tool_call(call_id="c", name="book", args={}))
    return record.verdict.decision.value, record.verdict.message


async def test_an_agent_and_a_worker_with_jwt_credentials_have_the_same_permissions(tmp_path: Path) -> None:
    authority = JwtAuthority()
    travel = creds(authority, tmp_path, Role.AGENT, "travel")
    policy = creds(authority, tmp_path, Role.WORKER, "policy")
    with EmbeddedServer(config=authority.config) as server:
        async with (
            hookbus.connect(server.url, creds=travel) as agent,
            hookbus.connect(server.url, creds=policy) as bus,
        ):
            async with Worker(bus, lambda context: {"decision": "allow"}, name="policy"):
                assert await emitted(agent, "travel") == ("allow", None)
                decision, message = await emitted(agent, "payroll")
    assert decision == "deny"
    assert message is not None
    assert message.startswith("refused: ")


async def test_a_jwt_of_another_authority_is_refused_and_nothing_of_it_is_told(tmp_path: Path) -> None:
    stranger = creds(JwtAuthority(), tmp_path, Role.AGENT, "travel")
    with EmbeddedServer(config=JwtAuthority().config) as server:
        with pytest.raises(hookbus.CannotConnect) as raised:
            await hookbus.connect(server.url, creds=stranger).__aenter__()
    secrets = [line for line in stranger.read_text("ascii").splitlines() if line and not line.startswith("---")]
    assert len(secrets) == 2
    assert not any(secret in str(raised.value) for secret in secrets)
