"""Hosts of their own on this machine: network namespaces around one server, joined by links that can be cut.

Needs root and Debian's ``iproute2``. All traffic stays inside the namespaces that are made here.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

_numbers = itertools.count()


class NoNamespaces(Exception):
    """This machine gives no network namespaces; the message says why."""


class Hosts:
    """A host with a server's address and one host for each of *names*, each with a link to the server's.

    Processes that are started inside ``with hosts.on(name)`` run on that host. Entering raises
    :class:`NoNamespaces`.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        # Interface names have 15 characters at most.
        self._tag = f"hb{os.getpid() % 100_000}-{next(_numbers)}"

    def __enter__(self) -> Self:
        if shutil.which("ip") is None:
            raise NoNamespaces("there is no `ip`; install Debian's iproute2")
        try:
            for host in ("server", *self._names):
                _ip("netns", "add", self._namespace(host))
                _ip("-n", self._namespace(host), "link", "set", "lo", "up")
            for number, name in enumerate(self._names):
                near, far = self._link(name)
                _ip("link", "add", near, "netns", self._namespace("server"), "type", "veth",
                    "peer", "name", far, "netns", self._namespace(name))  # fmt: skip
                for host, link, last in (("server", near, 1), (name, far, 2)):
                    _ip("-n", self._namespace(host), "address", "add", f"10.77.{number}.{last}/24", "dev", link)
                    _ip("-n", self._namespace(host), "link", "set", link, "up")
        except NoNamespaces:
            self._remove()
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._remove()

    def server_address(self, name: str) -> str:
        """Return the address that host *name* reaches the server's host at."""
        return f"10.77.{self._names.index(name)}.1"

    @contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Let the processes that are started in this block run on *host*."""
        with open("/proc/thread-self/ns/net") as ours, open(f"/run/netns/{self._namespace(host)}") as theirs:
            _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())

    def cut(self, name: str) -> None:
        """Lose everything between host *name* and the server's, in both directions and without a word."""
        self._set_link(name, "down")

    def heal(self, name: str) -> None:
        """Carry everything again."""
        self._set_link(name, "up")

    def _set_link(self, name: str, state: str) -> None:
        near, _ = self._link(name)
        _ip("-n", self._namespace("server"), "link", "set", near, state)

    def _namespace(self, host: str) -> str:
        return f"{self._tag}-{host}"

    def _link(self, name: str) -> tuple[str, str]:
        number = self._names.index(name)
        return f"{self._tag}s{number}", f"{self._tag}h{number}"

    def _remove(self) -> None:
        for host in ("server", *self._names):
            # Its links go with it.
            subprocess.run(["ip", "netns", "delete", self._namespace(host)], capture_output=True, check=False)


def _enter(namespace: int) -> None:
    # os.setns is there from Python 3.12 on. Only the calling thread moves, and the processes it starts.
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0) != 0:
        raise NoNamespaces(os.strerror(ctypes.get_errno()))


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoNamespaces(f"`ip {' '.join(arguments)}` says: {done.stderr.strip()}")
