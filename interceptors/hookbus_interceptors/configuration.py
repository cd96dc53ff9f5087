"""What an interceptor is told by a file: a table of TOML, checked by a model, with a version that answers show."""

from __future__ import annotations

import hashlib
import os
import tomllib
from pathlib import Path, PurePath
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from hookbus import HookbusError

#: Hexadecimal digits of the digest that versions end in.
DIGEST_DIGITS: Final = 12


class ConfigurationInvalid(HookbusError, ValueError):
    """The file at ``path`` is no configuration of this interceptor; ``why`` names the setting, never its value."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"the configuration {path} cannot be used: {why}")


class Configuration(BaseModel):
    """The settings of one interceptor; a subclass has a field for each. Frozen; unknown settings are refused.

    Numbers are finite: a threshold that is NaN would switch its rule off. Secrets are ``SecretStr``, or named by a
    file or a variable; their values do not enter the version.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: What its author calls this version of the policy. Answers show it with a digest of all settings.
    version: str = Field(default="0", pattern=r"^[!-~]{1,64}$")


C = TypeVar("C", bound=Configuration)


class Loaded(msgspec.Struct, Generic[C], frozen=True):
    """A configuration that was read, and what answers show of it."""

    configuration: C
    #: The stated version, ``+``, and a digest of every setting: it changes whenever what decides changes.
    version: str


class Source:
    """One table of one TOML file, and the files that its settings name: read, and compared with what was read.

    *table* is a dotted path in the file; none is the whole file.
    """

    def __init__(self, path: str | os.PathLike[str], table: str = "") -> None:
        self.path = Path(path)
        self.table = table
        #: What was found at the last attempt to read; None where nothing could be.
        self._found: dict[Path, bytes | None] = {}

    def changed(self) -> bool:
        """Whether any of the files differs from what was found when they were last read.

        Compared by their bytes: a time stamp can stay the same.
        """
        return not self._found or any(_bytes_of(path) != found for path, found in self._found.items())

    def read(self, model: type[C]) -> Loaded[C]:
        """Return the configuration as it stands in the files now. Raises :class:`ConfigurationInvalid`."""
        self._found = {}
        document: Any = self._document()
        for name in self.table.split(".") if self.table else ():
            document = document.get(name) if isinstance(document, dict) else None
        if not isinstance(document, dict):
            raise ConfigurationInvalid(self.path, f"it has no table {self.table!r}")
        try:
            configuration = model.model_validate(document, context=self)
        except ValidationError as error:
            raise ConfigurationInvalid(self.path, explain(error)) from None
        return Loaded(configuration, version_of(configuration))

    def text_beside(self, name: str) -> str:
        """Return the text of the file *name*, which is relative to this one. Raises ValueError."""
        content = self._take(self.path.parent / name)
        if content is None:
            raise ValueError("names a file that cannot be read")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError("names a file that is not UTF-8") from None

    def _document(self) -> dict[str, Any]:
        content = self._take(self.path)
        if content is None:
            raise ConfigurationInvalid(self.path, "it cannot be read")
        try:
            return tomllib.loads(content.decode("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise ConfigurationInvalid(self.path, "it is not TOML") from None

    def _take(self, path: Path) -> bytes | None:
        self._found[path] = content = _bytes_of(path)
        return content


def _text(value: object, info: ValidationInfo) -> object:
    return (
        info.context.text_beside(value) if isinstance(info.context, Source) and isinstance(value, str) else value
    )


#: The type of a setting that names a file beside the configuration and holds its text. The file is watched, too,
#: and its text enters the version. In code the value is the text itself.
FileText: TypeAlias = Annotated[str, BeforeValidator(_text)]


def version_of(configuration: Configuration) -> str:
    """Return the stated version of *configuration* with a digest of all settings, the same in every process."""
    exact = msgspec.json.encode(configuration.model_dump(), order="sorted", enc_hook=_plain)
    return f"{configuration.version}+{hashlib.sha256(exact).hexdigest()[:DIGEST_DIGITS]}"


def _plain(value: object) -> str:
    # Folders differ from machine to machine where policies do not.
    return value.name if isinstance(value, PurePath) else str(value)


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def explain(error: ValidationError) -> str:
    """Return which settings are wrong and what would be right; no value of any."""
    problems = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        name = ".".join(str(part) for part in problem["loc"]) or "the table"
        problems.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}")
    return "; ".join(problems)
