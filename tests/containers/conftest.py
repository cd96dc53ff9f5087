"""The server that a test may stop, kill and restart is one in a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.containers.image import NoEngine, image
from tests.containers.server import ContainerServer
from tests.faults import conftest as faults

config = faults.config
embedded_note = faults.note


@pytest.fixture
def note(embedded_note: faults.Note) -> faults.Note:
    """Notes what was measured beside the embedded server's figures."""
    return lambda fault, came_to, back_after_s: embedded_note(f"{fault}, in a container", came_to, back_after_s)


@pytest.fixture(scope="package")
def container() -> Iterator[ContainerServer]:
    try:
        name = image()
    except NoEngine as error:
        pytest.skip(str(error))
    with ContainerServer(name) as running:
        yield running


@pytest.fixture
def server(container: ContainerServer) -> ContainerServer:
    """A server to be stopped, killed and restarted; nothing that a test did to it reaches the next one."""
    if container.disturbed:
        container.restart()
    return container


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "tests/containers/" in r.nodeid]
    if skipped:
        why = skipped[0].longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"NOT TESTED in a container: {len(skipped)} tests: {why}", yellow=True)
