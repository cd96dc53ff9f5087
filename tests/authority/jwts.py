"""JWTs as NATS has them (version 2), signed with nkeys: of operator, accounts and users, and ``.creds`` files."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import nkeys

_UNLIMITED: Final = {"subs": -1, "data": -1, "payload": -1}


class Key(NamedTuple):
    seed: bytes
    public: str

    @classmethod
    def new(cls, prefix: int) -> Key:
        seed = nkeys.encode_seed(secrets.token_bytes(32), prefix)
        return cls(seed, nkeys.from_seed(seed).public_key.decode())


def jwt(issuer: Key, subject: str, name: str, kind: str, **nats: Any) -> str:
    """Return a JWT that *issuer* signs about *subject*, a public key."""
    claims: dict[str, Any] = {
        "iat": int(time.time()),
        "iss": issuer.public,
        "name": name,
        "sub": subject,
        "nats": {"type": kind, "version": 2, **nats},
    }
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    signed = b".".join(
        _part(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    )
    return (signed + b"." + _part(nkeys.from_seed(issuer.seed).sign(signed))).decode()


def _part(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class JwtAuthority:
    """An operator and one account; :attr:`config` is the configuration of a server that takes their users."""

    def __init__(self) -> None:
        operator, system = Key.new(nkeys.PREFIX_BYTE_OPERATOR), Key.new(nkeys.PREFIX_BYTE_ACCOUNT)
        self._account = Key.new(nkeys.PREFIX_BYTE_ACCOUNT)
        limits = {**_UNLIMITED, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1}
        preloaded = "".join(
            f"  {account.public}: {jwt(operator, account.public, name, 'account', limits=limits)}\n"
            for account, name in ((system, "SYS"), (self._account, "QUESTIONS"))
        )
        self.config = (
            f"operator: {jwt(operator, operator.public, 'tests', 'operator')}\n"
            f"system_account: {system.public}\nresolver: MEMORY\nresolver_preload {{\n{preloaded}}}\n"
        )

    def creds(self, path: Path, name: str, *, publish: list[str], subscribe: list[str]) -> Path:
        """Write the ``.creds`` file of a new user with these permissions and return its path."""
        user = Key.new(nkeys.PREFIX_BYTE_USER)
        permissions = {"pub": {"allow": publish}, "sub": {"allow": subscribe}, **_UNLIMITED}
        token = jwt(self._account, user.public, name, "user", **permissions)
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n",
            "ascii",
        )
        return path
