"""The figures in docs/conformance.md are those of a run."""

from __future__ import annotations

import pytest

from . import report


@pytest.mark.anyio
async def test_the_page_is_what_a_run_writes() -> None:
    assert report.PAGE.read_text("utf-8") == await report.page()
