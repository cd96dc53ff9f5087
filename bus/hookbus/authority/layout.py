"""What stands where in the folder that ``hookbus auth init`` writes.

    hookbus-auth/            only its owner may enter
        clients.toml         url and tls_ca, as new settings begin; yours to edit
        server/server.conf   listening, TLS, JetStream; written once, yours to edit
        server/accounts.conf accounts, users and permissions; rewritten at every change
        server/server.pid    written by the running server
        tls/                 a local CA, and the server's certificate
        tenants/TENANT/
            trust.toml       public keys by role and name
            ROLE/NAME.nk     the private key: an nkey seed
            ROLE/NAME.toml   settings for HOOKBUS_CONFIG, or for an interceptor's store

A name that is no subject token stands under its token.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hookbus.authority.roles import Role
from hookbus.subjects import token


class Layout(msgspec.Struct, frozen=True):
    """The paths under one folder, which is absolute: a server and its clients run from anywhere."""

    folder: Path

    @property
    def clients(self) -> Path:
        """What every client's settings have in common."""
        return self.folder / "clients.toml"

    @property
    def server_config(self) -> Path:
        """What ``nats-server --config`` reads."""
        return self.folder / "server" / "server.conf"

    @property
    def accounts_config(self) -> Path:
        """What the server's configuration includes."""
        return self.folder / "server" / "accounts.conf"

    @property
    def pid_file(self) -> Path:
        """Where the running server says which process it is."""
        return self.folder / "server" / "server.pid"

    @property
    def store(self) -> Path:
        """The files of JetStream."""
        return self.folder / "server" / "jetstream"

    @property
    def ca(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "tls" / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """The private key that signs certificates."""
        return self.folder / "tls" / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "tls" / "server.pem"

    @property
    def certificate_key(self) -> Path:
        """The server's private key."""
        return self.folder / "tls" / "server.key"

    @property
    def tenants(self) -> tuple[str, ...]:
        """The tenants that there are."""
        return tuple(sorted(path.parent.name for path in self.folder.glob("tenants/*/trust.toml")))

    def trust(self, tenant: str) -> Path:
        """Return where the public keys of everybody in *tenant* stand."""
        return self.folder / "tenants" / tenant / "trust.toml"

    def seed(self, tenant: str, role: Role, name: str) -> Path:
        """Return where the private key of *name* stands."""
        return self.folder / "tenants" / tenant / role / f"{token(name)}.nk"

    def settings(self, tenant: str, role: Role, name: str) -> Path:
        """Return where the client settings of *name* stand."""
        return self.folder / "tenants" / tenant / role / f"{token(name)}.toml"
