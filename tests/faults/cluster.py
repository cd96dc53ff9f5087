"""A cluster of NATS servers on this machine, whose nodes can be killed, restarted, stopped and retired."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from hookbus.server import EmbeddedServer

WHOLE_WITHIN_S = 20.0


class Node(EmbeddedServer):
    """One server of a cluster."""

    def retire(self) -> None:
        """Put the server into lame duck mode: it takes no new client, sends the ones it has away, and ends."""
        self._signal(signal.SIGUSR2)

    def knows(self) -> list[str]:
        """Return where the server says that clients may connect: itself and the nodes it has a route to."""
        with socket.create_connection((self.host, self.port), timeout=5) as connection:
            line = connection.makefile("rb").readline()
        info: dict[str, Any] = json.loads(line.removeprefix(b"INFO "))
        return list(info.get("connect_urls", []))


class Cluster:
    """*size* servers with routes to each other. Entering returns when each knows all of them."""

    def __init__(self, size: int = 3) -> None:
        routes = [free_port() for _ in range(size)]
        self.nodes = [Node(config=_config(number, routes)) for number in range(size)]
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for node in self.nodes:
                starting.enter_context(node)
            self.wait_until_whole()
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._running.close()

    def wait_until_whole(self) -> None:
        """Return when every node has a route to every other; TimeoutError when that does not come to be."""
        give_up = time.monotonic() + WHOLE_WITHIN_S
        while any(len(node.knows()) < len(self.nodes) for node in self.nodes):
            if time.monotonic() > give_up:
                raise TimeoutError("the servers found no routes to each other")
            # Another process is waited for, which tells only who asks it.
            time.sleep(0.02)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _config(number: int, routes: list[int]) -> str:
    urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    # The shortest that the server takes: its clients are sent away within a second each after the grace period.
    return f"""
        server_name: n{number}
        lame_duck_duration: "30s"
        lame_duck_grace_period: "100ms"
        cluster {{ name: faults, listen: "127.0.0.1:{routes[number]}", routes: [{urls}] }}
    """
