"""What the scaffold writes, and what it refuses to write over."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from hookbus import HookbusError

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_LONGEST: Final = 64


class NameUnusable(HookbusError, ValueError):
    """``name`` cannot be both an interceptor's name and, with ``_`` for ``-``, a module's."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} cannot be used: write a-z and 0-9 with single - or _ between them, beginning with a "
            f"letter, at most {_LONGEST} characters, and no word of Python's own"
        )


class FileExists(HookbusError, FileExistsError):
    """There is something at ``path`` already; nothing was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists already and nothing was written; give another NAME or --dir")


def write_interceptor(name: str, folder: Path) -> list[Path]:
    """Write an interceptor called *name*, its test and its configuration into *folder*; return the three paths.

    The folder is made where it does not exist. Raises :class:`NameUnusable`, and :class:`FileExists` before
    anything is written.
    """
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or keyword.iskeyword(module):
        raise NameUnusable(name)
    class_name = "".join(part.capitalize() for part in module.split("_"))
    values = {"name": name, "module": module, "class_name": class_name}
    written = {
        folder / f"{module}.py": "module.txt",
        folder / f"test_{module}.py": "test.txt",
        folder / f"{name}.toml": "configuration.txt",
    }
    for path in written:
        if path.exists():
            raise FileExists(path)
    folder.mkdir(parents=True, exist_ok=True)
    templates = files(__package__) / "templates"
    for path, template in written.items():
        text = Template((templates / template).read_text("utf-8")).substitute(values)
        path.write_text(text, "utf-8")
    return list(written)
