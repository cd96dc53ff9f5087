"""Settings that notice a fault soon, and what the run measured, told at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

#: How often agent and worker ask whether their server still answers, and the longest pause between two attempts.
PING_INTERVAL_S = 0.2

Note = Callable[[str, Counter[str], float], None]

_measured: list[tuple[str, Counter[str], float]] = []


@pytest.fixture
def config(tmp_path: Path) -> str:
    """The path of a settings file for agents and workers."""
    path = tmp_path / "hookbus.toml"
    path.write_text(
        f"ping_interval_s = {PING_INTERVAL_S}\nreconnect_wait_s = {PING_INTERVAL_S}\nconnect_timeout_s = 1.0\n"
    )
    return str(path)


@pytest.fixture
def note() -> Note:
    """Notes a fault, what the emissions came to while it lasted, and seconds until they were permitted again."""
    return lambda fault, came_to, back_after_s: _measured.append((fault, came_to, back_after_s))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        if "tests/faults/" in report.nodeid:
            terminalreporter.write_line(f"NOT TESTED: {report.nodeid}: {report.longrepr[2]}", yellow=True)
    if _measured and terminalreporter.verbosity > 0:
        terminalreporter.write_sep("-", "faults: what an agent saw, and how soon it was allowed again")
        for fault, came_to, back_after_s in _measured:
            seen = ", ".join(f"{name} {times}" for name, times in came_to.most_common())
            terminalreporter.write_line(f"{fault} | {seen} | {back_after_s:.2f} s")
