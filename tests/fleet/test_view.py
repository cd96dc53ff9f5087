"""What a person sees: a table at the foot of a terminal, lines anywhere else."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from hookbus_interceptors.fleet.process import State, Supervised
from hookbus_interceptors.fleet.view import View


class Shown:
    """A view of one worker, and what it wrote."""

    def __init__(self, *, terminal: bool) -> None:
        self.written = io.StringIO()
        console = Console(file=self.written, force_terminal=terminal, width=100, color_system=None)
        self.worker = Supervised(
            "redact/1",
            list,
            re.compile("x"),
            on_change=lambda process: self.view.show_change(process),
            on_line=lambda process, line: self.view.show_line(process, line),
        )
        self.view = View(console, [self.worker])

    def serve(self, worker_id: str) -> None:
        self.worker.state = State.SERVING
        self.worker.found = re.search(r"(?P<worker>\w+)", worker_id)
        self.view.show_change(self.worker)

    @property
    def tables(self) -> list[str]:
        return re.findall(r"│ redact/1 .*", self.written.getvalue())


def test_a_terminal_shows_the_table_and_no_line_for_a_change() -> None:
    shown = Shown(terminal=True)
    with shown.view.live():
        shown.serve("abc")
        shown.view.note_policy("abc", "1+0123456789ab")
        shown.view.show_line(shown.worker, "[bold]as it stands[/bold]")
    # Leaving shows it a last time.
    assert re.search(r"serving +│ 0 +│ 1\+0123456789ab", shown.tables[-1])
    assert "redact/1 │ [bold]as it stands[/bold]" in shown.written.getvalue()
    assert "redact/1: serving" not in shown.written.getvalue()


def test_elsewhere_the_table_is_printed_when_it_is_whole_and_whenever_it_is_another() -> None:
    shown = Shown(terminal=False)
    with shown.view.live():
        shown.view.note_policy("of another fleet", "9")
        assert shown.tables == []
        shown.serve("abc")
        assert "redact/1: serving" in shown.written.getvalue()
        assert shown.tables == []
        for policy, tables in (("1", 1), ("1", 1), ("2", 2)):
            shown.view.note_policy("abc", policy)
            assert len(shown.tables) == tables


@pytest.mark.parametrize(("status", "words"), [(3, "exit 3"), (-9, "signal 9")])
def test_one_that_died_is_shown_with_how_and_when_it_is_started_again(status: int, words: str) -> None:
    shown = Shown(terminal=False)
    shown.worker.state, shown.worker.status, shown.worker.pause_s = State.DIED, status, 4.0
    shown.view.show_change(shown.worker)
    assert shown.written.getvalue() == f"redact/1: died ({words}), again in 4 s\n"
