"""The tool of these tests: it books, and remembers what it booked."""

from __future__ import annotations

from typing import Any

from agent_framework import FunctionTool, tool


class Bookings:
    """``made`` lists the arguments of every booking; ``answer`` is what the tool returns, as it is."""

    def __init__(self, answer: Any = "booked", **tool_options: Any) -> None:
        self.made: list[dict[str, Any]] = []
        self._answer = answer
        options = {"approval_mode": "never_require", **tool_options}
        self.tool: FunctionTool = tool(self._book, name="book_ticket", **options)

    def _book(self, seat_class: str, note: str = "") -> Any:
        """Book one seat."""
        self.made.append({"seat_class": seat_class, "note": note})
        return self._answer
