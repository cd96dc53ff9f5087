"""``trust.toml`` of one tenant: the public keys of every name by role. It holds no secret.

    [agents]
    travel = ["UAAA…"]

    [workers]
    policy = ["UBBB…", "UCCC…"]

The server's users are generated from it, and agents and workers read from it whose signatures count
(:func:`hookbus.signing.read_trust`). A name has several keys while one is being rotated; the newest stands last.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hookbus.authority.errors import NameInvalid, NameTaken, NameUnknown, NothingOlder, RosterInvalid
from hookbus.authority.roles import Role
from hookbus.signing import is_public_key
from hookbus.subjects import is_token, token

_MAX_NAME_CHARS: Final = 128
_HEAD: Final = "# Public keys by role and name, the newest last. Written by `hookbus auth`; no secret is in it.\n"


class Entry(msgspec.Struct, frozen=True):
    """One name and its public keys, the newest last; at least one."""

    role: Role
    name: str
    keys: tuple[str, ...]


class Roster(msgspec.Struct, frozen=True):
    """Who is who in one tenant. A value: every change returns a new one."""

    tenant: str
    entries: tuple[Entry, ...] = ()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def of(self, role: Role) -> tuple[Entry, ...]:
        """Return the names of one role."""
        return tuple(entry for entry in self if entry.role is role)

    def get(self, role: Role, name: str) -> Entry:
        """Return the entry, or raise :class:`NameUnknown`."""
        for entry in self.of(role):
            if entry.name == name:
                return entry
        raise NameUnknown(self.tenant, role, name, tuple(entry.name for entry in self.of(role)))

    def with_new(self, role: Role, name: str, key: str) -> Self:
        """Return this roster and a new name; raises :class:`NameInvalid` or :class:`NameTaken`."""
        check_name(role, name)
        if any(entry.name == name for entry in self.of(role)):
            raise NameTaken(self.tenant, role, name)
        return msgspec.structs.replace(self, entries=(*self, Entry(role, name, (key,))))

    def with_newer(self, role: Role, name: str, key: str) -> Self:
        """Return this roster with *key* beside the keys that *name* has; raises :class:`NameUnknown`."""
        entry = self.get(role, name)
        return self._with(entry, (*entry.keys, key))

    def without_older(self, role: Role, name: str) -> Self:
        """Return this roster with the newest key of *name* only; raises :class:`NothingOlder`."""
        entry = self.get(role, name)
        if len(entry.keys) == 1:
            raise NothingOlder(role, name)
        return self._with(entry, entry.keys[-1:])

    def without(self, role: Role, name: str) -> Self:
        """Return this roster without *name*; raises :class:`NameUnknown`."""
        return self._with(self.get(role, name), ())

    def _with(self, entry: Entry, keys: tuple[str, ...]) -> Self:
        changed = (msgspec.structs.replace(e, keys=keys) if e is entry else e for e in self)
        return msgspec.structs.replace(self, entries=tuple(e for e in changed if e.keys))

    # ---- the file --------------------------------------------------------------------------------

    def to_toml(self) -> str:
        """Return the text of ``trust.toml``."""
        text = _HEAD
        for role in Role:
            text += f"\n[{_table(role)}]\n"
            text += "".join(f"{_quoted(e.name)} = {json.dumps(list(e.keys))}\n" for e in self.of(role))
        return text

    @classmethod
    def read(cls, path: Path, tenant: str) -> Self:
        """Return what *path* says of *tenant*; raises :class:`RosterInvalid`."""
        try:
            found = msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, dict[str, list[str]]])
            return cls(tenant, tuple(_entries(found)))
        except OSError as error:
            raise RosterInvalid(path, f"it cannot be read ({type(error).__name__})") from None
        except msgspec.ValidationError:
            raise RosterInvalid(path, "it is not tables of names with lists of public keys") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise RosterInvalid(path, "it is not TOML") from None
        except ValueError as error:
            raise RosterInvalid(path, str(error)) from None


def check_name(role: Role, name: str) -> None:
    """Raise :class:`NameInvalid` unless *name* can be a *role*'s: printable, not empty, not too long.

    That of a store is its bucket's, which workers write out, so it must stand for itself.
    """
    if not name or name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME_CHARS:
        raise NameInvalid(
            f"{name[:_MAX_NAME_CHARS]!r} cannot be a name: use 1 to {_MAX_NAME_CHARS} printable characters "
            "without blanks around them"
        )
    if role is Role.STORE and token(name) != name:
        raise NameInvalid(
            f"{name!r} cannot be a bucket: use 1 to 64 of a-z 0-9 _ -, begin with a letter or digit, not with x-"
        )


def check_tenant(tenant: str) -> None:
    """Raise :class:`NameInvalid` unless *tenant* can be a tenant: a subject token."""
    if not is_token(tenant):
        raise NameInvalid(
            f"{tenant!r} cannot be a tenant: use 1 to 64 of a-z 0-9 _ - and begin with a letter or digit"
        )


def _table(role: Role) -> str:
    return f"{role}s"


def _quoted(name: str) -> str:
    # A JSON string of printable characters is a TOML basic string.
    return name if is_token(name) else json.dumps(name, ensure_ascii=False)


def _entries(found: dict[str, dict[str, Any]]) -> Iterator[Entry]:
    roles = {_table(role): role for role in Role}
    for table, by_name in found.items():
        if table not in roles:
            raise ValueError(f"there is no table [{table}]; there are {', '.join(roles)}")
        for name, keys in by_name.items():
            check_name(roles[table], name)
            if not keys or not all(map(is_public_key, keys)):
                raise ValueError(f"{table}.{name}: a list of at least one public nkey (U…) is wanted")
            yield Entry(roles[table], name, tuple(keys))
