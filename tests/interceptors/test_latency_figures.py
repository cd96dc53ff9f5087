"""The figures of latency are taken from every interceptor that ships, of contexts that it lets pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.progress import Progress

from hookbus_client.bench.results import machine
from tests.interceptors.latency_figures import BEGIN, END, PAGE, measure, shipped_in, table_of, write_page
from tests.interceptors.measured_contexts import POINTS, SIZES, context_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("size", SIZES)
def test_a_measured_context_has_the_size_that_is_said_and_texts_of_its_own(point: str, size: str) -> None:
    one, other = (json.dumps(context_of(point, SIZES[size], number)) for number in (1, 2))
    assert abs(len(one) - SIZES[size]) < 0.05 * SIZES[size]
    assert json.loads(one)["target"] != json.loads(other)["target"]


@pytest.mark.slow
async def test_every_shipped_interceptor_is_measured_at_its_points_and_has_a_row(tmp_path: Path) -> None:
    shipped = {name: each for name, each in shipped_in().items() if each.runs_here}
    with Progress(disable=True) as progress:
        figures = await measure(shipped, most=1, cell_s=0, progress=progress)
    assert {name for name, _ in figures} == shipped.keys()
    for cells in figures.values():
        assert cells.keys() == SIZES.keys()
        for cell in cells.values():
            assert 0 < cell.itself_ms[0] < cell.question_ms[0]
            # What is refused is not looked through to its end.
            assert cell.decisions.keys() <= {"allow", "transform"}
    page = tmp_path / "latency.md"
    page.write_text(PAGE.read_text("utf-8"))
    for _ in range(2):
        write_page(page, machine(), table_of(figures), [])
    written = page.read_text("utf-8")
    assert written.count(BEGIN) == written.count(END) == 1
    assert written.startswith(PAGE.read_text("utf-8").partition(BEGIN)[0])
    for name, point in figures:
        assert f"| {name} | `{point}` |" in written
