"""The generated deployment: one for the tests that only use it, one for each test that changes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.authority.deployment import Deployment


@pytest.fixture(scope="package")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("authority") / "hookbus-auth") as deployment:
        deployment.make_streams()
        yield deployment


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(tmp_path / "hookbus-auth") as deployment:
        yield deployment
