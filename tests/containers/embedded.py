"""The fault tests of the embedded server, to be run on one in a container."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


def on_a_server(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the tests of *module* that take the ``server`` fixture, by their names.

    Those that start a server themselves, or share one and do nothing to it, are left where they are. Raises
    LookupError when there is none.
    """
    found = {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and "server" in inspect.signature(test).parameters
    }
    if not found:
        raise LookupError(f"no test of {module.__name__} takes a server")
    return found
