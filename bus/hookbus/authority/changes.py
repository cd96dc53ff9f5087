"""What ``hookbus auth`` does to its folder: begin one, and add, rotate or revoke one name in it.

Everything is generated from the tenants' ``trust.toml``. The running server is told by SIGHUP, on which it
disconnects those who are no longer permitted and nobody else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hookbus.authority import tls
from hookbus.authority.errors import ConfigRefused, FolderInUse, NameInvalid, NotAFolder
from hookbus.authority.keys import make_private_folder, new_user_key, write_private, write_public
from hookbus.authority.layout import Layout
from hookbus.authority.roles import DOMAIN, Role, inbox
from hookbus.authority.roster import Roster, check_tenant
from hookbus.authority.server_config import accounts_conf, server_conf
from hookbus.server import binary

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Authority:
    """One folder of keys and configuration. Made by :meth:`begin`, or opened to be changed.

    Opening raises :class:`NotAFolder` where no authority was written. Changes by several processes at once happen
    one after another.
    """

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder.resolve())
        if not self.layout.tenants:
            raise NotAFolder(folder)

    @classmethod
    def begin(
        cls,
        folder: Path,
        *,
        tenants: Sequence[str],
        names: Mapping[Role, Sequence[str]],
        hosts: Sequence[str] = (),
        port: int = 4222,
    ) -> Authority:
        """Write a new authority into *folder*, which must be new or empty, with *names* in every tenant.

        The server's certificate is for *hosts* and this machine; clients connect to the first of them. With none
        the server listens on the loopback address only. Raises :class:`FolderInUse` and :class:`NameInvalid`,
        both before anything is written.
        """
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FolderInUse(folder)
        for tenant in tenants:
            check_tenant(tenant)
        rosters: list[Roster] = []
        seeds: list[tuple[str, Role, str, bytes]] = []
        for tenant in dict.fromkeys(tenants):
            roster = Roster(tenant)
            for role, name in ((role, name) for role, several in names.items() for name in several):
                seed, key = new_user_key()
                roster = roster.with_new(role, name, key)
                seeds.append((tenant, role, name, seed))
            rosters.append(roster)
        authority, server = tls.issue(tuple(dict.fromkeys((*hosts, *_LOOPBACK))))

        layout = Layout(folder.resolve())
        make_private_folder(layout.folder)
        layout.folder.chmod(0o700)
        for path, pair in ((layout.ca_key, authority), (layout.certificate_key, server)):
            write_private(path, pair.key)
        write_public(layout.ca, authority.certificate.decode())
        write_public(layout.certificate, server.certificate.decode())
        make_private_folder(layout.store)
        listen = f"0.0.0.0:{port}" if set(hosts) - set(_LOOPBACK) else f"127.0.0.1:{port}"
        write_public(layout.server_config, server_conf(layout, listen=listen))
        write_public(layout.accounts_config, accounts_conf(rosters))
        write_public(layout.clients, _clients(_url((*hosts, _LOOPBACK[0])[0], port), layout.ca))
        for tenant, role, name, seed in seeds:
            write_private(layout.seed(tenant, role, name), seed)
            write_public(layout.settings(tenant, role, name), _settings(layout, tenant, role, name))
        for roster in rosters:
            make_private_folder(layout.trust(roster.tenant).parent)
            write_public(layout.trust(roster.tenant), roster.to_toml())
        return cls(folder)

    def roster(self, tenant: str) -> Roster:
        """Return who is who in *tenant* now; raises :class:`NameInvalid` and :class:`RosterInvalid`."""
        if tenant not in self.layout.tenants:
            raise NameInvalid(f"there is no tenant {tenant!r} here; there is {', '.join(self.layout.tenants)}")
        return Roster.read(self.layout.trust(tenant), tenant)

    def add(self, tenant: str, role: Role, name: str) -> str:
        """Give *name* a key, settings and its permissions; return the public key.

        Raises :class:`NameInvalid`, :class:`NameTaken` and :class:`ConfigRefused`.
        """
        with self._locked():
            seed, key = new_user_key()
            roster = self.roster(tenant).with_new(role, name, key)
            path = self.layout.seed(tenant, role, name)
            write_private(path, seed)
            try:
                self._put(roster)
            except BaseException:
                path.unlink()
                raise
            write_public(self.layout.settings(tenant, role, name), _settings(self.layout, tenant, role, name))
            return key

    def rotate(self, tenant: str, role: Role, name: str) -> str:
        """Give *name* a new key, in place of the private one that stood here; return the public key.

        Every key that *name* had is accepted beside it until :meth:`revoke_older`. Raises :class:`NameUnknown`
        and :class:`ConfigRefused`.
        """
        with self._locked():
            seed, key = new_user_key()
            roster = self.roster(tenant).with_newer(role, name, key)
            path = self.layout.seed(tenant, role, name)
            new = path.with_suffix(".new")
            new.unlink(missing_ok=True)
            write_private(new, seed)
            try:
                self._put(roster)
            except BaseException:
                new.unlink()
                raise
            os.replace(new, path)
            return key

    def revoke_older(self, tenant: str, role: Role, name: str) -> None:
        """Accept only the newest key of *name*; whoever is connected with an older one is disconnected.

        Raises :class:`NameUnknown`, :class:`NothingOlder` and :class:`ConfigRefused`.
        """
        with self._locked():
            self._put(self.roster(tenant).without_older(role, name))

    def revoke(self, tenant: str, role: Role, name: str) -> None:
        """Accept no key of *name* any more, and remove its private key and its settings.

        Raises :class:`NameUnknown` and :class:`ConfigRefused`.
        """
        with self._locked():
            self._put(self.roster(tenant).without(role, name))
            self.layout.seed(tenant, role, name).unlink(missing_ok=True)
            self.layout.settings(tenant, role, name).unlink(missing_ok=True)

    def reload(self) -> int | None:
        """Have the server that runs with this folder read its configuration again; return its process, or None.

        Returns before the server has done it.
        """
        try:
            pid = int(self.layout.pid_file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None
        # A file left behind by a server that was killed may name a process that SIGHUP would end.
        command = Path(f"/proc/{pid}/comm")
        if Path("/proc/self/comm").exists():
            with contextlib.suppress(OSError):
                if command.read_text("ascii", "replace").strip() != "nats-server":
                    return None
        try:
            os.kill(pid, signal.SIGHUP)
        except ProcessLookupError:
            return None
        return pid

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.layout.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _put(self, roster: Roster) -> None:
        """Write what follows from *roster*, or nothing if the server would not take it."""
        accounts = self.layout.accounts_config
        before = accounts.read_text("utf-8")
        rosters = {tenant: self.roster(tenant) for tenant in self.layout.tenants} | {roster.tenant: roster}
        write_public(accounts, accounts_conf(rosters.values()))
        try:
            self._check()
        except BaseException:
            write_public(accounts, before)
            raise
        write_public(self.layout.trust(roster.tenant), roster.to_toml())

    def _check(self) -> None:
        command = [binary(), "-t", "--config", str(self.layout.server_config)]
        checked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            raise ConfigRefused((checked.stderr or checked.stdout).strip().partition("\n")[0])


def _url(host: str, port: int) -> str:
    return f"tls://[{host}]:{port}" if ":" in host else f"tls://{host}:{port}"


def _clients(url: str, ca: Path) -> str:
    return (
        "# What the settings of every name added from now on begin with; yours to edit.\n"
        f"url = {json.dumps(url)}\ntls_ca = {json.dumps(str(ca), ensure_ascii=False)}\n"
    )


def _settings(layout: Layout, tenant: str, role: Role, name: str) -> str:
    key = str(layout.seed(tenant, role, name))
    own = {"name": f"{role} {name}", "tenant": tenant, "creds": key}
    if role in (Role.AGENT, Role.WORKER):
        # Questions and answers are signed, and only those signed by the other side count.
        own |= {"signing_key": key, "trust": str(layout.trust(tenant))}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in own.items()]
    lines += [line for line in layout.clients.read_text("utf-8").splitlines() if not line.startswith("#")]
    return "\n".join((_use(layout, tenant, role, name), *lines, ""))


def _use(layout: Layout, tenant: str, role: Role, name: str) -> str:
    if role is not Role.STORE:
        return "# Settings for HOOKBUS_CONFIG."
    path = json.dumps(str(layout.settings(tenant, role, name)), ensure_ascii=False)
    return (
        "# In the configuration of an interceptor that keeps values there:\n"
        f'# store = {{ bucket = "{name}", domain = "{DOMAIN}", inbox = "{inbox(role, name)}", settings = {path} }}'
    )
