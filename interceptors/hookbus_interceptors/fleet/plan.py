"""What a fleet is made of, as its file says."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from agent_hooks import InterceptionPoint
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from hookbus.subjects import is_token, token
from hookbus_interceptors.configuration import ConfigurationInvalid, explain


def _interceptor_name(name: str) -> str:
    if not is_token(name) or token(name) != name:
        raise ValueError("an interceptor is named with a-z 0-9 _ -, begins with a letter or digit and not with x-")
    return name


class ServerPlan(BaseModel):
    """The server of the fleet: one of its own, or another one where ``url`` says so without ``start``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    #: 0 takes a free one.
    port: int = Field(default=4222, ge=0, lt=65536)
    #: Durable state, in a temporary folder that ends with the fleet.
    jetstream: bool = False
    #: A server that runs already; none is started.
    url: str | None = None


class InterceptorPlan(BaseModel):
    """One interceptor: what answers, and how many processes of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``package.module:attr``.
    target: str = Field(pattern=r"^[^:]+:[^:]+$")
    #: Processes; questions are spread over them.
    workers: int = Field(default=1, ge=1)
    #: Questions that one process takes at a time.
    concurrency: int = Field(default=64, ge=1)
    #: The points to serve; none for those of the interceptor itself.
    points: tuple[InterceptionPoint, ...] = ()
    #: The interceptor's own TOML file, relative to the fleet's.
    config: Path | None = None
    #: The table of ``config``, dotted; all of it without one.
    table: str = ""
    #: The interceptor's configuration, in place of ``config``.
    configuration: dict[str, Any] | None = None
    #: The interpreter of another environment that has hookbus, relative to the fleet's file.
    python: Path | None = None
    #: A file of connection settings (credentials, keys), relative to the fleet's.
    settings: Path | None = None

    @model_validator(mode="after")
    def _one_configuration(self) -> Self:
        if self.config is not None and self.configuration is not None:
            raise ValueError("it has either config, a file, or a table configuration")
        return self


class FleetPlan(BaseModel):
    """A fleet. Interceptors whose names are the same extension namespace are refused (§4.6)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant: Annotated[str | None, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")] = None
    server: ServerPlan = ServerPlan()
    interceptors: dict[Annotated[str, AfterValidator(_interceptor_name)], InterceptorPlan] = Field(min_length=1)

    @model_validator(mode="after")
    def _no_collision(self) -> Self:
        seen: dict[str, str] = {}
        for name in self.interceptors:
            other = seen.setdefault(name.replace("-", "_"), name)
            if other != name:
                raise ValueError(f"{other!r} and {name!r} are the same extension namespace; rename one")
        return self


def read_fleet(path: Path) -> FleetPlan:
    """Return the fleet that the file at *path* describes. Raises :class:`ConfigurationInvalid`."""
    try:
        return FleetPlan.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigurationInvalid(path, f"it cannot be read ({type(error).__name__})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ConfigurationInvalid(path, "it is not TOML") from None
    except ValidationError as error:
        raise ConfigurationInvalid(path, explain(error)) from None


def server_command(server: ServerPlan, port: int) -> list[str]:
    """Return the command line of the fleet's own server on *port*."""
    command = [sys.executable, "-m", "hookbus", "server", "--host", server.host, "--port", str(port)]
    return [*command, "--jetstream"] if server.jetstream else command


def worker_command(
    path: Path, name: str, plan: InterceptorPlan, *, url: str | None, tenant: str | None
) -> list[str]:
    """Return the command line of one worker of interceptor *name* of the fleet at *path*."""
    beside = path.absolute().parent
    # Not resolved: the interpreter of an environment is a link, and where it leads to knows nothing of it.
    python = sys.executable if plan.python is None else os.path.normpath(beside / plan.python)
    command = [python, "-m", "hookbus", "worker", "run", plan.target, "--name", name]
    command += ["--concurrency", str(plan.concurrency)]
    for point in plan.points:
        command += ["--point", point.value]
    if plan.configuration is not None:
        command += ["--interceptor-config", str(path.absolute()), "--table", f"interceptors.{name}.configuration"]
    elif plan.config is not None:
        command += ["--interceptor-config", str(beside / plan.config)]
        command += ["--table", plan.table] if plan.table else []
    if url is not None:
        command += ["--url", url]
    if tenant is not None:
        command += ["--tenant", tenant]
    if plan.settings is not None:
        command += ["--config", str(beside / plan.settings)]
    return command
