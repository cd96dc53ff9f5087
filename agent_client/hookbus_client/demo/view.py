"""What a person sees of the demo: each emission as one line as it happens, and what was said and done between.

Lines only, so that a log shows the same as a terminal but for the colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_hooks import Decision, InterceptionRecord
from rich.console import Console
from rich.text import Text

from hookbus_client.agent import Event

_STYLES = {Decision.ALLOW: "green", Decision.TRANSFORM: "yellow", Decision.DENY: "bold red"}
_WHO_WIDTH = 9
_POINT_WIDTH = 16


class View:
    """Prints to *console*. ``record`` is an emitter's record sink, ``event`` an agent's watcher."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def heading(self, text: str) -> None:
        """Begin a part of the story."""
        self._print(Text(f"\n{text}", style="bold"))

    def note(self, text: str) -> None:
        """Say what the demo itself does."""
        self._print(Text(f"  {text}", style="dim"))

    def said(self, who: str, text: str) -> None:
        """Show what the user, the agent or a tool said; further lines of a text are indented."""
        first, *more = text.splitlines() or [""]
        self._print(Text.assemble("  ", (who.ljust(_WHO_WIDTH), "bold cyan"), first))
        for line in more:
            self._print(Text(" " * (_WHO_WIDTH + 2) + line))

    def record(self, record: InterceptionRecord) -> None:
        """Show an emission: how long it took, its point, every interceptor's verdict, and why it was denied."""
        line = Text.assemble(
            f"  {_elapsed_ms(record):7.1f} ms  ", (record.interception_point.value.ljust(_POINT_WIDTH), "bold")
        )
        for number, summary in enumerate(record.verdicts):
            line.append(" · " if number else "  ")
            line.append(f"{summary.name or summary.index} ")
            line.append(summary.decision.value, style=_STYLES[summary.decision])
        self._print(line)
        if not record.proceeds:
            verdict = record.verdict
            why = ": ".join(part for part in (verdict.reason, verdict.message) if part)
            self._print(Text(f"{'':14}denied: {why}", style="red"))

    def event(self, event: Event) -> None:
        """Show a tool call that is about to run, or what the model reads of one that has ended."""
        facts = event.facts
        if event.name == "tool-end":
            self.said("refused" if facts["is_error"] else "tool", f"{_call(facts['call'])} → {facts['result']}")

    def _print(self, text: Text) -> None:
        # A log is not a terminal of some width: nothing is cut or wrapped there.
        self._console.print(text, soft_wrap=True)


def _elapsed_ms(record: InterceptionRecord) -> float:
    """Return the milliseconds since the context was made, by this process's wall clock."""
    if record.timestamp is None:
        return 0.0
    made = datetime.fromisoformat(record.timestamp)
    return (datetime.now(UTC) - made).total_seconds() * 1000


def _call(call: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call["args"].items())
    return f"{call['name']}({arguments})"
