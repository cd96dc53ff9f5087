"""Capturing for tests: a pair of keys, a folder, and what stands in it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hookbus_interceptors.capture import Capture, CaptureConfiguration
from hookbus_interceptors.capture.reading import Captured, Record
from hookbus_interceptors.capture.sealing import new_pair, read_private

PRIVATE_PEM, PUBLIC_PEM = new_pair()
PRIVATE_KEY = read_private(PRIVATE_PEM)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def settings(folder: Path, **more: Any) -> CaptureConfiguration:
    return CaptureConfiguration.model_validate({"folder": folder, "public_key": PUBLIC_PEM, **more})


def capture(folder: Path, **more: Any) -> Capture:
    return Capture(settings(folder, **more))


def read(folder: Path) -> tuple[list[Record], Captured]:
    """Every record that checks, and who read them."""
    captured = Captured(folder, PRIVATE_KEY)
    return list(captured.records()), captured


def segments(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())
