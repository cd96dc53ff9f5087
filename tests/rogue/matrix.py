"""What a row of the rogue's matrix is, and the page that all rows make together.

A row stands as a mark on the test that tries it, so there is no row without a test. ``python -m tests.rogue``
writes ``docs/rogue-matrix.md``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

import pytest

PAGE: Final = Path(__file__).parents[2] / "docs" / "rogue-matrix.md"

#: The test modules, in the order of the page; the first line of each one's docstring is its heading there.
SECTIONS: Final = (
    "test_sign_in",
    "test_permissions",
    "test_asking",
    "test_answering",
    "test_in_flight",
    "test_replay",
    "test_aimed",
    "test_streams",
    "test_stores",
    "test_keys",
    "test_floods",
)

_HEAD: Final = """\
# The rogue's matrix

What somebody with a key of their own, with a stolen one, or on the way between agents and workers tries against a
deployment as `hookbus auth init` writes it, what stops it, and which test shows it. A rogue is somebody who runs
any code they like with the credentials of one role. The *server* here is whoever holds the server's machine or the
line to it, where neither TLS nor permissions hold and signatures are all there is.

*Refused* is told to the rogue or to who was asked; *dropped* means without any effect, and counted where it shows;
a class as in *forged* is what the agent's emission is denied with (contract, section 4). Nothing here ever becomes
a permit. What is not stopped stands in [the threat model](threat-model.md#what-remains).

```sh
pytest tests/rogue        # its last lines: n/n refused or detected
```

This page is generated from the tests' own marks by `python -m tests.rogue`, and a test holds it to them.
"""


class Stop(StrEnum):
    """What stops a rogue."""

    SIGN_IN = "sign-in"
    TLS = "TLS"
    PERMISSION = "server permission"
    ACCOUNT = "account boundary"
    SERVER = "the server itself"
    STREAM = "stream configuration"
    SIGNATURE = "signature"
    ID = "id"
    REPEAT = "worker's memory of ids"
    EXPIRY = "signed expiry"
    REPLY = "worker's reply rule"
    ORIGIN = "worker's check of the origin"
    HEADERS = "worker's check of headers"
    BOUND = "worker's bound"
    SETTLED = "a question settles once"
    ANSWER = "agent's check of the answer"
    DENIES = "no failure permits"
    PAYLOAD = "server's limit"
    TRUST = "trust file"


class Row(NamedTuple):
    """One line of the matrix."""

    who: str
    tries: str
    stops: str
    shows: str


def tried(who: str, tries: str, *stops: Stop, shows: str) -> pytest.MarkDecorator:
    """Return the mark of a test, or of one parameter of it, that shows this row."""
    return pytest.mark.rogue(Row(who, tries, ", ".join(stops), shows))


def row_of(mark: pytest.Mark) -> Row:
    """Return the row in a mark of :func:`tried`."""
    row: Row = mark.args[0]
    return row


def shown() -> Iterator[tuple[str, str, Row]]:
    """Yield every row with its module and the test that shows it, in the order of the page."""
    for name in SECTIONS:
        module = _module(name)
        for test, function in vars(module).items():
            for mark in reversed(getattr(function, "pytestmark", ()) if test.startswith("test_") else ()):
                if mark.name == "rogue":
                    yield name, test, row_of(mark)
                elif mark.name == "parametrize":
                    for parameters in mark.args[1]:
                        for own in getattr(parameters, "marks", ()):
                            if own.name == "rogue":
                                yield name, test, row_of(own)


def page() -> str:
    """Return the text of ``docs/rogue-matrix.md``."""
    rows = list(shown())
    lines = [_HEAD]
    for name in SECTIONS:
        doc = (_module(name).__doc__ or "").partition("\n")[0].rstrip(".")
        lines.append(f"\n## {doc}\n\nIn `tests/rogue/{name}.py`.\n")
        lines.append("| | who | tries | what stops it | how it shows | test |")
        lines.append("| --- | --- | --- | --- | --- | --- |")
        for place, (section, test, row) in enumerate(rows, start=1):
            if section == name:
                lines.append(f"| {place} | {' | '.join(row)} | `{test}` |")
    lines.append(f"\n{len(rows)} rows.\n")
    return "\n".join(lines)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"tests.rogue.{name}")
