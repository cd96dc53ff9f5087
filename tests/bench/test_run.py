"""A whole run of the bench, as small as it gets: nothing here asserts a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from hookbus_client.bench import plan
from hookbus_client.bench.cli import app
from tests.bench.conftest import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_every_contender_is_measured_in_every_case_of_the_plan(finished: Run) -> None:
    wanted = {(case, who) for case, contenders in plan.smallest().cases.items() for who in contenders}
    assert {(found.case, found.contender) for found in finished.results.figures} == wanted
    for found in finished.results.figures:
        assert found.emissions >= found.case.callers
        assert 0 < found.p50_us <= found.p90_us <= found.p99_us
        assert found.per_second > 0


def test_a_run_measures_memory_scaling_and_the_bytes_of_a_session(finished: Run) -> None:
    extras = finished.results.extras
    assert extras.memory_after_bytes > 0
    assert extras.memory_before_bytes > 0
    assert extras.scaled_one_per_second > 0
    assert extras.scaled_all_per_second > 0
    assert extras.session_sent_bytes > extras.session_conversation_bytes > 0


def test_people_are_shown_the_ratios_the_times_and_where_the_files_are(finished: Run) -> None:
    assert "Ratios" in finished.output
    assert "Time of one emission" in finished.output
    assert str(finished.json) in finished.output.replace("\n", "")


def test_the_picture_of_a_run_is_svg(finished: Run) -> None:
    assert ElementTree.fromstring(finished.picture.read_text("utf-8")).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_page_holds_the_tables_and_the_picture_of_its_run(finished: Run) -> None:
    page = finished.page.read_text("utf-8")
    assert f"]({finished.page.with_suffix('.svg').name})" in page
    assert finished.page.with_suffix(".svg").is_file()
    assert "0.5 KB × 1" in page
    assert "$" not in page


def test_runs_read_together_are_reported_without_measuring(finished: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    files = ["--plot", str(tmp_path / "plot.svg"), "--document", str(page)]
    ended = CliRunner().invoke(app, ["--read", str(finished.json), "--read", str(finished.json), *files])
    assert ended.exit_code == 0
    assert "2 runs" in page.read_text("utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_bench_in_the_background_ends_when_it_is_told_to_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    # A shell makes its background jobs ignore Ctrl-C.
    command = f"trap '' INT; exec {sys.executable} -c 'from hookbus.cli import main; main()' bench --quick"
    with subprocess.Popen(
        ["sh", "-c", command],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as bench:
        end_s = time.monotonic() + 60
        while not Path(f"/proc/{bench.pid}/task/{bench.pid}/children").read_text():
            assert time.monotonic() < end_s
            assert bench.poll() is None
        bench.send_signal(number)
        assert bench.wait(30) != 0
        with pytest.raises(ProcessLookupError):
            os.killpg(bench.pid, 0)
