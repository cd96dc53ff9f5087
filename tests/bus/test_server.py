"""The embedded server and the command that runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import hookbus
from hookbus.server import EmbeddedServer, ServerFailed

HOOKBUS = Path(sysconfig.get_path("scripts")) / "hookbus"


def test_a_server_keeps_its_port_over_a_restart() -> None:
    with EmbeddedServer() as server:
        port = server.port
        server.restart()
        assert server.port == port


def test_a_server_that_does_not_start_tells_its_last_words() -> None:
    with pytest.raises(ServerFailed) as raised, EmbeddedServer(config="this is { not a configuration"):
        pass
    assert raised.value.log


def test_a_port_that_is_taken_is_an_error() -> None:
    with EmbeddedServer() as server, pytest.raises(ServerFailed), EmbeddedServer(port=server.port):
        pass


def test_the_command_runs_a_server_until_it_is_interrupted() -> None:
    with subprocess.Popen([HOOKBUS, "server", "--port", "0"], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        assert re.search(r"ready at nats://127\.0\.0\.1:\d+", command.stderr.readline())
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=20) == 0


def test_the_command_tells_its_version() -> None:
    told = subprocess.run([HOOKBUS, "version"], capture_output=True, text=True, check=True)
    assert told.stdout == "hookbus 0.1.0, contract version 1\n"


def test_the_bus_is_imported_without_the_agents_or_the_workers_side() -> None:
    code = "import hookbus, sys; print([m for m in sys.modules if m.startswith(('hookbus_', 'agent_hooks'))])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
    assert hookbus.Failure.ABSENT.label == "absent"
