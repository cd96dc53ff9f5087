"""What capturing is told: where to, for whom, for how long, and what becomes of a question when it cannot."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from pydantic import Field, field_validator, model_validator

from hookbus_interceptors.capture.sealing import read_public
from hookbus_interceptors.configuration import Configuration, FileText


class CaptureConfiguration(Configuration):
    """Where contexts are kept, and for how long."""

    #: The folder of the segments; made for its owner only, and refused where others may enter it.
    folder: Path
    #: A file with the public key that ``hookbus replay keygen`` wrote.
    public_key: FileText
    #: No record is kept for longer.
    keep_days: float = Field(default=14.0, ge=1)
    #: What all segments in the folder may have together; the oldest go first.
    max_bytes: int = Field(default=4 * 1024**3, gt=0)
    #: What one segment may have before the next begins; a day has at least one.
    segment_bytes: int = Field(default=64 * 1024**2, ge=4096)
    #: Whether a question is denied when its context could not be stored, or let pass with a warning.
    on_failure: Literal["deny", "allow"] = "deny"
    #: How long a question waits for its record to be on disk.
    wait_s: float = Field(default=2.0, gt=0)

    @field_validator("public_key")
    @classmethod
    def _is_key(cls, value: str) -> str:
        read_public(value)
        return value

    @model_validator(mode="after")
    def _segments_fit(self) -> Self:
        if self.max_bytes < 2 * self.segment_bytes:
            raise ValueError("max_bytes is at least twice segment_bytes")
        return self

    @cached_property
    def recipient(self) -> X25519PublicKey:
        """Who can read what is captured."""
        return read_public(self.public_key)

    @property
    def keep(self) -> timedelta:
        """``keep_days`` as a duration."""
        return timedelta(days=self.keep_days)
