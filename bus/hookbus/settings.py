"""Settings of a connection: keywords first, then the environment (``HOOKBUS_…``), then a TOML file."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from hookbus.errors import SettingsInvalid
from hookbus.subjects import is_token

#: The environment variable that names the settings file.
FILE_VARIABLE = "HOOKBUS_CONFIG"


_PATHS: Final = ("creds", "tls_ca", "signing_key", "trust")


class Settings(BaseSettings):
    """What a connection needs to know. Read with :func:`read_settings`; every bare number has its unit.

    Private material is named by its path (``creds``) and never stands in a setting.
    """

    model_config = SettingsConfigDict(env_prefix="HOOKBUS_", frozen=True, extra="forbid")

    #: One server, or several with commas between them; ``nats://`` or ``tls://``.
    url: str = "nats://127.0.0.1:4222"
    #: The tenant, a subject token.
    tenant: str = "default"
    #: A credentials file: a JWT ``.creds`` file or a bare nkey seed.
    creds: Path | None = None
    #: A certificate authority for ``tls://`` servers; the system's own otherwise.
    tls_ca: Path | None = None
    #: A file with the nkey seed that signs this process's questions or answers; nothing is signed without one.
    signing_key: Path | None = None
    #: A file of the public keys that questions or answers must be signed by; nothing is demanded without one.
    trust: Path | None = None
    #: Shown by the server's monitoring.
    name: str = "hookbus"
    #: How long entering the connection may take.
    connect_timeout_s: float = Field(default=5.0, gt=0)
    #: How often the connection asks whether the server still answers; two unanswered ones end it.
    ping_interval_s: float = Field(default=2.0, gt=0)
    #: The longest pause between two attempts to reconnect. The first attempt is made at once.
    reconnect_wait_s: float = Field(default=2.0, gt=0)
    #: Questions this connection keeps in flight; one more is denied as ``open``.
    max_in_flight: int = Field(default=4096, gt=0)
    #: Bytes of contexts this connection keeps in flight; more is denied as ``open``.
    max_in_flight_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    #: After this many questions to one interceptor ended in silence, one after the other, its breaker opens.
    breaker_opens_after: int = Field(default=10, gt=0)
    #: How often an open breaker lets one question through.
    breaker_trial_interval_s: float = Field(default=1.0, gt=0)
    #: Bytes of questions written and not yet taken by the socket; more is ``bus_down``.
    max_unsent_bytes: int = Field(default=64 * 1024 * 1024, gt=0)

    @field_validator("url")
    @classmethod
    def _servers(cls, value: str) -> str:
        urls = [part.strip() for part in value.split(",") if part.strip()]
        if not urls:
            raise ValueError("name at least one server, for example nats://127.0.0.1:4222")
        if not all(map(_is_server, urls)):
            raise ValueError("servers are written nats://host:port or tls://host:port")
        return ",".join(urls)

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        if not is_token(value):
            raise ValueError("a tenant is 1 to 64 of a-z 0-9 _ - and begins with a letter or digit")
        return value

    @field_validator(*_PATHS)
    @classmethod
    def _exists(cls, value: Path | None) -> Path | None:
        try:
            found = value is None or value.is_file()
        except OSError:
            raise ValueError("names a file that cannot be looked at") from None
        if not found:
            raise ValueError("names a file that does not exist")
        return value

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers, one string each."""
        return tuple(self.url.split(","))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Keywords, then the environment; :func:`read_settings` adds the file below both."""
        return init_settings, env_settings


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("nats", "tls") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # Its message quotes what stands in the place of the host or the port, which may be a password.
        return False


def read_settings(config: str | os.PathLike[str] | None = None, **keywords: Any) -> Settings:
    """Return the settings from *keywords* (None means unset), the environment, and a TOML file, in that order.

    The file is *config*, else the one named by ``HOOKBUS_CONFIG``, else none; its settings stand at its
    top level under the names of :class:`Settings`. Raises :class:`SettingsInvalid`, which names each wrong
    setting and what would be right, never its value.
    """
    path = config if config is not None else os.environ.get(FILE_VARIABLE)
    from_file = _read_file(Path(path)) if path else {}
    given = {name: value for name, value in keywords.items() if value is not None}

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(  # type: ignore[override]  # the sources are all this class changes
            cls, settings_cls: type[BaseSettings], **sources: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (
                sources["init_settings"],
                sources["env_settings"],
                InitSettingsSource(settings_cls, init_kwargs=from_file),
            )

    try:
        read = Sourced(**given)
    except ValidationError as error:
        raise SettingsInvalid(_explain(error)) from None
    return Settings.model_construct(**read.model_dump())


def _read_file(path: Path) -> dict[str, Any]:
    """Return the settings in *path*; its relative paths start from its own folder, so a folder can be moved."""
    try:
        written = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsInvalid(
            f"the settings file {path} cannot be read ({type(error).__name__}); "
            f"correct {FILE_VARIABLE} or the config argument"
        ) from None
    except (ValueError, RecursionError):
        # Not only TOMLDecodeError: more digits or levels than Python reads come out as they are.
        raise SettingsInvalid(f"the settings file {path} is not TOML") from None
    for name in _PATHS:
        if isinstance(written.get(name), str):
            written[name] = path.parent / written[name]
    return written


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        name = ".".join(str(part) for part in problem["loc"]) or "settings"
        what = problem["msg"].removeprefix("Value error, ")
        lines.append(f"{name} (HOOKBUS_{name.upper()}): {what}")
    return "; ".join(lines)
