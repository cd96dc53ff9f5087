"""Nobody, and nobody's server: signing in

Without a key, with the wrong one, without TLS, and a server that is not ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

import hookbus
from hookbus.authority.keys import new_user_key, write_private
from hookbus.authority.roles import Role
from tests.authority.deployment import Deployment
from tests.authority.wire import SignInRefused, Wire
from tests.rogue.matrix import Stop, tried

pytestmark = pytest.mark.anyio

#: As a server greets that offers no TLS.
GREETING = (
    b'INFO {"server_id":"N","server_name":"n","version":"2.12.0","proto":1,"headers":true,'
    b'"max_payload":1048576,"auth_required":true,"nonce":"bm9uY2U","tls_required":false}\r\n'
)


@tried("nobody", "signs in without a key", Stop.SIGN_IN, shows="refused")
async def test_nobody_signs_in_without_a_key(deployed: Deployment) -> None:
    with pytest.raises(SignInRefused, match="Authorization Violation"):
        await deployed.wire_with(None).__aenter__()


@tried("nobody", "signs in with a key of their own making", Stop.SIGN_IN, shows="refused")
async def test_nobody_signs_in_with_a_key_that_was_not_given_out(deployed: Deployment, tmp_path: Path) -> None:
    write_private(tmp_path / "own.nk", new_user_key()[0])
    with pytest.raises(SignInRefused, match="Authorization Violation"):
        await deployed.wire_with(tmp_path / "own.nk").__aenter__()


@tried("any role", "signs in without TLS, where the line can be read", Stop.TLS, shows="refused")
async def test_nobody_signs_in_without_tls(deployed: Deployment) -> None:
    for role, names in {Role.AGENT: "travel", Role.WORKER: "policy", Role.OPERATOR: "olga"}.items():
        wire = Wire(deployed.server.port, seed=deployed.layout.seed("default", role, names), ca=None)
        with pytest.raises(SignInRefused):
            await wire.__aenter__()


@tried(
    "server", "is another one, with a certificate of another authority", Stop.TLS, shows="refused by the client"
)
async def test_a_server_of_another_authority_is_not_joined(deployed: Deployment, tmp_path: Path) -> None:
    other = Deployment(tmp_path / "hookbus-auth")
    settings = {"config": deployed.settings(Role.AGENT, "travel"), "connect_timeout_s": 2.0}
    with pytest.raises(hookbus.CannotConnect, match="SSL"):
        await hookbus.connect(**settings, tls_ca=other.layout.ca).__aenter__()
    with pytest.raises(ssl.SSLCertVerificationError):
        await Wire(deployed.server.port, seed=None, ca=other.layout.ca).__aenter__()


@pytest.mark.parametrize("role", [Role.AGENT, Role.WORKER])
@tried("server", "offers no TLS to a client that was told to use it", Stop.TLS, shows="refused by the client")
async def test_a_server_that_offers_no_tls_is_not_joined(deployed: Deployment, role: Role) -> None:
    heard, ended = bytearray(), asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                heard.extend(line)
                if line == b"PING\r\n":
                    writer.write(b"PONG\r\n")
        writer.transport.abort()
        ended.set()

    name = {Role.AGENT: "travel", Role.WORKER: "policy"}[role]
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        bus = hookbus.connect(f"tls://127.0.0.1:{port}", config=deployed.settings(role, name), connect_timeout_s=2)
        with pytest.raises(hookbus.CannotConnect):
            async with bus:
                pass
        await ended.wait()
    assert b"nkey" not in heard
