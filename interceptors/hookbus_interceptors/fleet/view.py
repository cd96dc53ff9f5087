"""What a person sees of a fleet: a table that lives on a terminal, lines anywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookbus_interceptors.fleet.process import State, Supervised

_STYLES: Final = {
    State.STARTING: "yellow",
    State.SERVING: "green",
    State.DIED: "bold red",
    State.DRAINING: "yellow",
    State.ENDED: "dim",
}


class View:
    """Shows *processes*. ``policies`` holds what each worker, by its id, last said that it answers by."""

    def __init__(self, console: Console, processes: Sequence[Supervised]) -> None:
        self.policies: dict[str, str] = {}
        self._console = console
        self._processes = processes
        self._shown: list[tuple[str, str, str, str, str]] = []

    @contextmanager
    def live(self) -> Iterator[None]:
        """Keep the table at the foot of a terminal; elsewhere do nothing."""
        if not self._console.is_terminal:
            yield
            return
        with Live(get_renderable=self.table, console=self._console, refresh_per_second=4):
            yield

    def show_line(self, process: Supervised, line: str) -> None:
        """Show a line that *process* wrote."""
        self._print(f"{process.name} │ {line}")

    def show_change(self, process: Supervised) -> None:
        """Show that the state of *process* is another."""
        if not self._console.is_terminal:
            self._print(f"{process.name}: {_state(process)}")

    def note_policy(self, worker_id: str, policy: str) -> None:
        """Note what a worker says; without a terminal show the table when it is whole and another than before."""
        self.policies[worker_id] = policy
        rows = [self._row(process) for process in self._processes]
        whole = all(process.state is State.SERVING for process in self._processes)
        if not self._console.is_terminal and whole and rows != self._shown and self._all_heard():
            self._shown = rows
            self._console.print(self.table())

    def table(self) -> Table:
        """Return what runs, one row for each process."""
        table = Table("process", "pid", "state", "restarts", "policy")
        for process in self._processes:
            name, pid, state, restarts, policy = self._row(process)
            table.add_row(name, pid, Text(state, _STYLES[process.state]), restarts, policy)
        return table

    def _row(self, process: Supervised) -> tuple[str, str, str, str, str]:
        policy = self.policies.get(_worker_id(process), "")
        return process.name, str(process.pid or ""), _state(process), str(process.restarts), policy

    def _all_heard(self) -> bool:
        ids = {_worker_id(process) for process in self._processes} - {""}
        return ids <= self.policies.keys()

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _worker_id(process: Supervised) -> str:
    return "" if process.found is None else process.found.groupdict().get("worker", "")


def _state(process: Supervised) -> str:
    if process.state is not State.DIED:
        return str(process.state.value)
    status = process.status or 0
    ended = f"signal {-status}" if status < 0 else f"exit {status}"
    return f"died ({ended}), again in {process.pause_s:g} s"
