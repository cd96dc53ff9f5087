"""``trust.toml``: the public keys of every name, by tenant and role. It holds no secret.

    [default.worker]
    policy = ["UAAA…", "UBBB…"]

It is what the server's users are generated from, and what an agent or a worker reads to know whose signatures to
accept. A name has several keys while one is being rotated; the newest stands last.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hookbus.authority.errors import NameInvalid, NameTaken, NameUnknown, NothingOlder, TrustInvalid
from hookbus.authority.roles import Role
from hookbus.subjects import is_token, token

_PUBLIC_KEY: Final = re.compile(r"U[A-Z2-7]{55}")
_MAX_NAME_CHARS: Final = 128
_HEAD: Final = (
    "# Public keys by tenant, role and name, the newest last. Written by `hookbus auth`; no secret is in it.\n"
)


class Entry(msgspec.Struct, frozen=True):
    """One name and its public keys, the newest last."""

    tenant: str
    role: Role
    name: str
    keys: tuple[str, ...]


class Trust(msgspec.Struct, frozen=True):
    """Who is trusted as what. A value: every change returns a new one."""

    tenants: tuple[str, ...]
    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, tenants: tuple[str, ...]) -> Self:
        """Return a trust in nobody yet; raises :class:`NameInvalid` for what cannot be a tenant."""
        for tenant in tenants:
            if not is_token(tenant):
                raise NameInvalid(
                    f"{tenant!r} cannot be a tenant: use 1 to 64 of a-z 0-9 _ - and begin with a letter or digit"
                )
        return cls(tuple(dict.fromkeys(tenants)))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def keys(self, tenant: str, role: Role, own_token: str) -> tuple[str, ...]:
        """Return the public keys of whoever has the subject token *own_token*; none if nobody is trusted as that.

        Asked by token and not by name, as a subject is what a question or an answer comes by.
        """
        for entry in self:
            if (entry.tenant, entry.role, token(entry.name)) == (tenant, role, own_token):
                return entry.keys
        return ()

    def get(self, tenant: str, role: Role, name: str) -> Entry:
        """Return the entry, or raise :class:`NameUnknown`."""
        self._check_tenant(tenant)
        entry = self._find(tenant, role, name)
        if entry is None:
            known = tuple(e.name for e in self if e.tenant == tenant and e.role is role)
            raise NameUnknown(tenant, role, name, known)
        return entry

    def with_new(self, tenant: str, role: Role, name: str, key: str) -> Self:
        """Return this trust and a new name; raises :class:`NameInvalid` or :class:`NameTaken`."""
        self._check_tenant(tenant)
        check_name(name)
        if self._find(tenant, role, name) is not None:
            raise NameTaken(tenant, role, name)
        return msgspec.structs.replace(self, entries=(*self, Entry(tenant, role, name, (key,))))

    def with_newer(self, tenant: str, role: Role, name: str, key: str) -> Self:
        """Return this trust with *key* beside the keys that *name* has; raises :class:`NameUnknown`."""
        entry = self.get(tenant, role, name)
        return self._with(entry, (*entry.keys, key))

    def without_older(self, tenant: str, role: Role, name: str) -> Self:
        """Return this trust with the newest key of *name* only; raises :class:`NothingOlder`."""
        entry = self.get(tenant, role, name)
        if len(entry.keys) == 1:
            raise NothingOlder(role, name)
        return self._with(entry, entry.keys[-1:])

    def without(self, tenant: str, role: Role, name: str) -> Self:
        """Return this trust without *name*; raises :class:`NameUnknown`."""
        return self._with(self.get(tenant, role, name), ())

    def _with(self, entry: Entry, keys: tuple[str, ...]) -> Self:
        changed = (msgspec.structs.replace(entry, keys=keys) if e is entry else e for e in self)
        return msgspec.structs.replace(self, entries=tuple(e for e in changed if e.keys))

    def _find(self, tenant: str, role: Role, name: str) -> Entry | None:
        for entry in self:
            if (entry.tenant, entry.role, entry.name) == (tenant, role, name):
                return entry
        return None

    def _check_tenant(self, tenant: str) -> None:
        if tenant not in self.tenants:
            raise NameInvalid(f"there is no tenant {tenant!r} here; there is {', '.join(self.tenants)}")

    # ---- the file --------------------------------------------------------------------------------

    def to_toml(self) -> str:
        """Return the text of ``trust.toml``."""
        text = _HEAD
        for tenant in self.tenants:
            text += f"\n[{tenant}]\n"
            for role in Role:
                own = [e for e in self if e.tenant == tenant and e.role is role]
                if own:
                    text += f"\n[{tenant}.{role}]\n"
                    text += "".join(f"{_quoted(e.name)} = {json.dumps(list(e.keys))}\n" for e in own)
        return text

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what *path* says; raises :class:`TrustInvalid`."""
        try:
            found: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise TrustInvalid(path, f"cannot be read ({type(error).__name__})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise TrustInvalid(path, "is not TOML") from None
        try:
            trust = cls.of(tuple(found))
            return msgspec.structs.replace(trust, entries=tuple(_entries(found)))
        except ValueError as error:
            raise TrustInvalid(path, str(error)) from None


def check_name(name: str) -> None:
    """Raise :class:`NameInvalid` unless *name* can be somebody's name: printable, not empty, not too long."""
    if not name or name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME_CHARS:
        raise NameInvalid(
            f"{name[:_MAX_NAME_CHARS]!r} cannot be a name: use 1 to {_MAX_NAME_CHARS} printable characters "
            "without blanks around them"
        )


def _quoted(name: str) -> str:
    # A JSON string of printable characters is a TOML basic string.
    return name if is_token(name) else json.dumps(name, ensure_ascii=False)


def _entries(found: Mapping[str, Any]) -> Iterator[Entry]:
    for tenant, by_role in found.items():
        for role, by_name in _table(by_role, tenant).items():
            for name, keys in _table(by_name, f"{tenant}.{role}").items():
                where = f"{tenant}.{role}.{name}"
                check_name(name)
                if role not in list(Role):
                    raise ValueError(f"{where}: the roles are {', '.join(Role)}")
                if not isinstance(keys, list) or not keys:
                    raise ValueError(f"{where}: a list of at least one public key is wanted")
                if not all(isinstance(key, str) and _PUBLIC_KEY.fullmatch(key) for key in keys):
                    raise ValueError(f"{where}: a public key is U and 55 of A-Z 2-7")
                yield Entry(tenant, Role(role), name, tuple(keys))


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: a table is wanted")
    return value
