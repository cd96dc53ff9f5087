"""One smallest run of the bench for every test that looks at what a run leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookbus_client.bench import results
from hookbus_client.bench.cli import app


class Run:
    """A finished run of ``hookbus bench``."""

    def __init__(self, folder: Path) -> None:
        self.json = folder / "run.json"
        self.picture = folder / "run.svg"
        self.page = folder / "performance.md"
        files = ["--json", str(self.json), "--plot", str(self.picture), "--document", str(self.page)]
        ended = CliRunner().invoke(app, ["--smallest", *files], catch_exceptions=False)
        assert ended.exit_code == 0
        self.output = ended.output
        self.results = results.read(self.json)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("bench"))
