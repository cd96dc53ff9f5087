"""A NATS server in a container, with the faults of the embedded one."""

from __future__ import annotations

import socket
import time
from typing import Final, Self

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from hookbus.server import ServerFailed
from tests.faults.cluster import free_port

# It is an image that would have to be pulled. Leaving the block removes the container without it.
testcontainers_config.ryuk_disabled = True

READY_WITHIN_S: Final = 20.0
_PORT: Final = "4222/tcp"


class ContainerServer(DockerContainer):
    """What :class:`hookbus.server.EmbeddedServer` is to a test, in a container of *image*.

    Its port is published on loopback, and is the same one over :meth:`restart`. ``disturbed`` says whether the
    server was killed or paused since it was last started.
    """

    def __init__(self, image: str) -> None:
        super().__init__(image)
        self.host = "127.0.0.1"
        self.port = free_port()
        # Not `with_bind_ports`, which publishes on every address.
        self.ports[_PORT] = (self.host, self.port)  # type: ignore[assignment]  # narrower than what Docker takes
        self.disturbed = False

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self.host}:{self.port}"

    def start(self) -> Self:
        """Create and start the container; return when the server is ready, or raise ServerFailed."""
        super().start()
        self._wait_until_ready()
        return self

    def kill(self) -> None:
        """End the server with SIGKILL and wait until it is gone; the container stays."""
        self.disturbed = True
        self.reload()
        if self.status != "exited":
            self.get_wrapped_container().kill()

    def restart(self) -> None:
        """Start a server again on the same port; what was running is killed first."""
        self.kill()
        self.get_wrapped_container().start()
        self._wait_until_ready()
        self.disturbed = False

    def pause(self) -> None:
        """Freeze every process of the container: the server's sockets stay open and nothing answers."""
        self.disturbed = True
        self.get_wrapped_container().pause()

    def resume(self) -> None:
        """Let a paused server go on."""
        self.get_wrapped_container().unpause()

    def _wait_until_ready(self) -> None:
        give_up = time.monotonic() + READY_WITHIN_S
        while not self._greets():
            self.reload()
            if self.status != "running" or time.monotonic() > give_up:
                raise ServerFailed(self.get_wrapped_container().logs().decode("utf-8", "replace").splitlines())
            # Another process is waited for, which tells only who asks it.
            time.sleep(0.01)

    def _greets(self) -> bool:
        # A connection alone tells nothing: the engine takes it before anything listens in the container.
        try:
            with socket.create_connection((self.host, self.port), timeout=READY_WITHIN_S) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False
