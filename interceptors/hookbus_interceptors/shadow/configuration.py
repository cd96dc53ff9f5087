"""What a trial is told: who decides, who wants to, how far it has come, and for which share of the sessions."""

from __future__ import annotations

import inspect
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator

from hookbus.codec import Json
from hookbus_interceptors.calling import instance_of
from hookbus_interceptors.configuration import Configuration, explain
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.errors import InterceptorNotFound, NotConfigurable
from hookbus_interceptors.loading import load


class Stage(StrEnum):
    """How far the candidate has come."""

    #: It answers beside the current one for the share, and decides nothing.
    SHADOW = "shadow"
    #: It decides for the share.
    CANARY = "canary"
    #: It decides for every session.
    ALL = "all"


class SideConfiguration(BaseModel):
    """One of the two interceptors, as a fleet's file names any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``package.module:attr``.
    target: str = Field(pattern=r"^[^:\s]+:[^:\s]+$")
    #: Its own settings, where it takes any; checked by its own model.
    configuration: SerializeAsAny[Configuration] | None = Field(default=None, validate_default=True)

    @field_validator("configuration", mode="before")
    @classmethod
    def _as_its_model_has_it(cls, settings: Json, info: ValidationInfo) -> Configuration | None:
        if "target" not in info.data or isinstance(settings, Configuration):
            return settings  # type: ignore[no-any-return]  # another error stands already, or it was made in code
        try:
            found = load(info.data["target"])
        except InterceptorNotFound:
            raise ValueError("the target names nothing that can be imported") from None
        if not (inspect.isclass(found) and issubclass(found, Configured)):
            if settings is not None:
                raise ValueError("the target takes no settings")
            return None
        try:
            # The same context: a file that these settings name stands beside the configuration and is watched.
            return found.model.model_validate({} if settings is None else settings, context=info.context)
        except ValidationError as error:
            raise ValueError(explain(error)) from None

    def interceptor(self) -> object:
        """Return the interceptor, a new one. Raises what its class raises, and :class:`NotAnInterceptor`."""
        found = load(self.target)
        if self.configuration is None:
            return instance_of(found)
        if not (inspect.isclass(found) and issubclass(found, Configured)):
            raise NotConfigurable(self.target)
        return found(self.configuration)


class ShadowConfiguration(Configuration):
    """A trial of one interceptor against another."""

    stage: Stage = Stage.SHADOW
    #: Of the sessions, 0 to 1. A session that is in a share is in every larger one.
    share: float = Field(default=0.1, ge=0, le=1)
    #: Another salt, other sessions. Keep it while a trial runs.
    salt: str = Field(default="", max_length=256)
    current: SideConfiguration
    candidate: SideConfiguration
    #: The candidate's own time; a question that expires earlier ends it earlier.
    timeout_s: float = Field(default=1.0, gt=0, le=60)
    #: Calls of the candidate at a time, those that hang included.
    concurrency: int = Field(default=16, ge=1, le=1024)
