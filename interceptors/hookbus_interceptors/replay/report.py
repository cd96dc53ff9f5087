"""What a replay came to: numbers, a table of the differences, and every one of them by its record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hookbus.codec import Json
from hookbus_interceptors.capture.reading import Findings
from hookbus_interceptors.replay.asking import Compared, Terms
from hookbus_interceptors.replay.outcome import Change, Outcome

#: Records named in a row of the table; the JSON names all.
_NAMED: int = 3


class Report:
    """The differences so far. ``findings`` are of the folder, ``repeated`` are second attempts left out."""

    def __init__(self, terms: Terms, findings: Findings, repeated: int) -> None:
        self._terms = terms
        self._findings = findings
        self._repeated = repeated
        self.compared = 0
        #: Records of points that neither of the two serves.
        self.unserved = 0
        self.differences: list[Compared] = []

    def add(self, compared: Compared) -> None:
        """Count one more record."""
        if compared.current.absent and compared.candidate.absent:
            self.unserved += 1
            return
        self.compared += 1
        if compared.change is not None:
            self.differences.append(compared)

    @property
    def counts(self) -> Mapping[Change, int]:
        """How many records differ in which way."""
        return Counter(each.change for each in self.differences if each.change is not None)

    def passes(self, *, allow_flips: bool) -> bool:
        """Whether every record was asked, answered and decided alike; *allow_flips* lets them differ.

        A replay of nothing, or with an answer missing, or from a folder somebody tampered with, shows nothing.
        """
        sound = self.compared > 0 and not self._findings.tampered and not self.counts.get(Change.UNANSWERED)
        return sound and (allow_flips or not any(change.is_flip for change in self.counts))

    def to_wire(self, policies: tuple[set[str], set[str]]) -> dict[str, Json]:
        """Return everything, without a word of any payload."""
        current, candidate = policies
        return {
            "current": {"interceptor": self._terms.current, "policies": sorted(current)},
            "candidate": {"interceptor": self._terms.candidate, "policies": sorted(candidate)},
            "captured": {**msgspec.structs.asdict(self._findings), "repeated": self._repeated},
            "compared": self.compared,
            "unserved": self.unserved,
            "counts": {change.value: self.counts.get(change, 0) for change in Change},
            "differences": [
                {
                    "record": each.record,
                    "change": each.change,
                    "point": each.point,
                    "tool": each.tool,
                    "current": _told(each.current),
                    "candidate": _told(each.candidate),
                }
                for each in self.differences
            ],
        }

    def print(self, console: Console, policies: tuple[set[str], set[str]]) -> None:
        """Print numbers and a table."""
        for role, name, versions in (
            ("current", self._terms.current, policies[0]),
            ("candidate", self._terms.candidate, policies[1]),
        ):
            console.print(f"{role}: {name} {' '.join(sorted(versions))}".rstrip(), markup=False, highlight=False)
        if self.differences:
            console.print(self._table())
        counted = ", ".join(f"{self.counts[change]} {change}" for change in Change if change in self.counts)
        console.print(f"{self.compared} compared: {counted or 'no difference'}", markup=False, highlight=False)
        if self.unserved:
            console.print(f"{self.unserved} of points that neither of the two serves", highlight=False)
        found = {**msgspec.structs.asdict(self._findings), "repeated": self._repeated}
        del found["records"]
        noted = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.items() if count)
        if noted:
            console.print(f"in the folder: {noted}", markup=False, highlight=False)

    def _table(self) -> Table:
        groups: dict[tuple[str, ...], list[str]] = {}
        for each in self.differences:
            outcomes = each.current.shown(), each.candidate.shown()
            groups.setdefault((str(each.change), each.point, each.tool, *outcomes), []).append(each.record)
        table = Table("change", "point", "tool", "current", "candidate", "count", "records")
        for key, records in sorted(groups.items()):
            more = ["…"] if len(records) > _NAMED else []
            cells = [*key, str(len(records)), "\n".join([*records[:_NAMED], *more])]
            table.add_row(*(Text(cell, overflow="fold") for cell in cells))
        return table


def _told(outcome: Outcome) -> dict[str, Json]:
    return {"decision": outcome.decision, "reason": outcome.reason}
