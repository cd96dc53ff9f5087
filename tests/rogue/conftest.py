"""The deployments that rogues are let into, and the count of what stopped them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.authority.deployment import Deployment
from tests.rogue.matrix import Row, row_of
from tests.rogue.plain import PlainDeployment

_STOPPED: dict[Row, bool] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rogue(row): a row of the rogue's matrix, which this test shows")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    for mark in item.iter_markers("rogue"):
        row = row_of(mark)
        _STOPPED[row] = _STOPPED.get(row, True) and report.outcome == "passed"
    del call
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _STOPPED:
        stopped = sum(_STOPPED.values())
        terminalreporter.write_line(f"rogue matrix: {stopped}/{len(_STOPPED)} refused or detected")


@pytest.fixture(scope="package")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A generated deployment with its streams, over TLS."""
    with Deployment(tmp_path_factory.mktemp("rogue") / "hookbus-auth") as deployment:
        deployment.make_streams()
        yield deployment


@pytest.fixture(scope="package")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainDeployment]:
    """The same without TLS, for a server that is not to be trusted: signatures alone must hold."""
    with PlainDeployment(tmp_path_factory.mktemp("plain") / "hookbus-auth") as deployment:
        yield deployment


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Deployment]:
    """The same for one test that changes what there is."""
    with Deployment(tmp_path / "hookbus-auth") as deployment:
        deployment.make_streams()
        yield deployment
