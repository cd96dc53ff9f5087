"""What the ``hookbus auth`` commands may raise; no message holds a private key or a word of one.

HookbusError
└── AuthorityError
    ├── FolderInUse        init wants a new or empty folder
    ├── NotAFolder         no authority was ever written there
    ├── NameInvalid        a tenant, name or host that cannot be used
    ├── NameTaken          there is such a name already
    ├── NameUnknown        there is no such name
    ├── NothingOlder       the name has one key only
    ├── RosterInvalid      trust.toml is not what it should be
    ├── ConfigRefused      nats-server does not accept the configuration
    └── StreamRefused      the server refused a stream or a durable
"""

from __future__ import annotations

from pathlib import Path

from hookbus.errors import HookbusError


class AuthorityError(HookbusError):
    """The base of what goes wrong with keys, permissions and their files."""


class FolderInUse(AuthorityError):
    """The folder holds something already, and nothing in it was touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} is not empty and nothing in it was changed; "
            "`hookbus auth add`, `rotate` and `revoke` change what is there, `--dir` names another folder"
        )


class NotAFolder(AuthorityError):
    """The folder was not written by ``hookbus auth init``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"there is no authority in {folder}; make one with `hookbus auth init --dir {folder}`")


class NameInvalid(AuthorityError, ValueError):
    """A tenant, a name or a host cannot be used; the message says what would be right."""


class NameTaken(AuthorityError):
    """That role has that name already."""

    def __init__(self, tenant: str, role: str, name: str) -> None:
        super().__init__(
            f"tenant {tenant} has {role} {name!r} already; `hookbus auth rotate {role}` gives it a new key"
        )


class NameUnknown(AuthorityError):
    """That role has no such name."""

    def __init__(self, tenant: str, role: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"tenant {tenant} has no {role} {name!r}; it has {', '.join(map(repr, known)) or 'none'}")


class NothingOlder(AuthorityError):
    """There is no older key to take away."""

    def __init__(self, role: str, name: str) -> None:
        super().__init__(f"{role} {name!r} has one key only; without --old it is revoked altogether")


class RosterInvalid(AuthorityError, ValueError):
    """A ``trust.toml`` cannot be read; the message names the place and never a value."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        super().__init__(f"{path}: {why}")


class ConfigRefused(AuthorityError):
    """``nats-server`` does not accept the configuration; the one before is in place again."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nats-server does not accept the configuration, and nothing was changed: {why}")


class StreamRefused(AuthorityError):
    """The server refused to make a stream or a durable."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"the server refused {what}: {why}")
