"""A folder that ``hookbus auth init`` would write, and a server that runs with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hookbus.authority import streams
from hookbus.authority.changes import Authority
from hookbus.authority.roles import Role
from hookbus.server import EmbeddedServer
from tests.authority.wire import Wire

NAMES: Final[dict[Role, Sequence[str]]] = {
    Role.AGENT: ["travel", "payroll"],
    Role.WORKER: ["policy", "redactor"],
    Role.APPROVER: ["alice", "bob"],
    Role.AUDITOR: ["ada", "eve"],
    Role.OPERATOR: ["olga"],
    Role.STORE: ["hookbus-budget", "hookbus-rate-limit"],
}


class Deployment:
    """The tenants ``default`` and ``acme`` with the same names in both. Use as ``with Deployment(path) as it``."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.begin(folder, tenants=["default", "acme"], names=NAMES)
        self.layout = self.authority.layout
        # An include is read from the folder of the file that names it, which here is the server's own.
        above = "../" * 32
        self.server = EmbeddedServer(config=f'include "{above}{self.layout.server_config}"')

    def __enter__(self) -> Self:
        self.server.__enter__()
        for path in (self.layout.clients, *self.layout.folder.glob("tenants/*/*/*.toml")):
            path.write_text(path.read_text("utf-8").replace(":4222", f":{self.server.port}"), "utf-8")
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.__exit__(type, error, trace)

    def make_streams(self) -> None:
        """Make the streams and durables of both tenants."""
        for tenant in self.layout.tenants:
            asyncio.run(streams.make(self.authority, tenant, "olga"))

    def settings(self, role: Role, name: str, tenant: str = "default") -> Path:
        """Return the client settings of *name*."""
        return self.layout.settings(tenant, role, name)

    def wire(self, role: Role, name: str, tenant: str = "default") -> Wire:
        """Return a client of *name*, not yet connected."""
        return self.wire_with(self.layout.seed(tenant, role, name))

    def wire_with(self, seed: Path | None) -> Wire:
        """Return a client with any private key."""
        return Wire(self.server.port, seed=seed, ca=self.layout.ca)
