"""Finding the interceptor that a command line names."""

from __future__ import annotations

import importlib
import os
import sys
from functools import reduce
from pathlib import Path

from hookbus_interceptors.errors import InterceptorNotFound, NotConfigurable


def load(target: str) -> object:
    """Return the object at *target*, which is written ``package.module:attr``.

    The current directory is importable. Raises :class:`InterceptorNotFound` when the module or the attribute
    does not exist; whatever the module itself raises while it is imported comes out as it is.
    """
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise InterceptorNotFound(target, "it is not of the form package.module:attr")
    # A console script does not see the directory it is run from, unlike `python -m`.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        # Only the named module itself: one that it imports in turn is a fault to be seen with its traceback.
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        raise InterceptorNotFound(target, f"there is no module {missing.name!r}") from None
    try:
        found: object = reduce(getattr, path.split("."), module)
    except AttributeError:
        raise InterceptorNotFound(target, f"the module {module_name!r} has no {path!r}") from None
    return found


def configured(interceptor: object, path: Path, table: str = "") -> object:
    """Return what *interceptor* makes of the configuration at *path*: ``interceptor.from_config(path, table)``.

    Raises :class:`NotConfigurable` when it has no ``from_config``, and whatever that raises.
    """
    from_config = getattr(interceptor, "from_config", None)
    if not callable(from_config):
        raise NotConfigurable(getattr(interceptor, "__qualname__", type(interceptor).__qualname__))
    made: object = from_config(path, table)
    return made
