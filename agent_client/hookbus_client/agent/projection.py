"""What can stand in a context: plain JSON values (§4.4), and how one becomes text for a model."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python


class Unprojectable(Exception):
    """A value has no JSON form. Holds the name of the offending type, never the value."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name
        super().__init__(f"{type_name} has no JSON form")


def project(value: Any) -> Any:
    """Return a private copy of *value* made of JSON values only.

    Numbers and strings pass as they are: whether they are in the declared identity provider's
    domain is the emitter's judgement (§4.4: nothing is normalised). Raises
    :class:`Unprojectable`.
    """
    try:
        return _copy(value)
    except RecursionError:
        raise Unprojectable("RecursionError") from None


def _copy(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise Unprojectable(f"{type(key).__name__} key")
        return {key: _copy(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    raise Unprojectable(type(value).__name__)


def project_result(value: Any) -> Any:
    """Return the JSON form of what a tool returned: models, dataclasses and dates included.

    Raises :class:`Unprojectable`.
    """
    try:
        return project(to_jsonable_python(value))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise Unprojectable(type(value).__name__) from error


def as_text(value: Any) -> str:
    """Return *value* as the text a model reads: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
