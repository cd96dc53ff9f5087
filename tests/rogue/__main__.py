"""Writes ``docs/rogue-matrix.md`` from the marks of the tests."""

from tests.rogue.matrix import PAGE, page

PAGE.write_text(page(), "utf-8")
