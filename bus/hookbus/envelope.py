"""The headers of a question and of an answer, as bytes and back (contract, sections 2 and 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hookbus.errors import HeadersMalformed

VERSION: Final = "1"

CONTRACT: Final = "Hb-Contract"
ID: Final = "Hb-Id"
BUDGET_MS: Final = "Hb-Budget-Ms"
EXPIRES_MS: Final = "Hb-Expires-Ms"
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
INTERCEPTOR: Final = "Hb-Interceptor"
WORKER: Final = "Hb-Worker"
POLICY: Final = "Hb-Policy"
ELAPSED_US: Final = "Hb-Elapsed-Us"
SIGNATURE: Final = "Hb-Signature"
KEY: Final = "Hb-Key"
ERROR_CODE: Final = "Nats-Service-Error-Code"
ERROR: Final = "Nats-Service-Error"
RETRY_AFTER_MS: Final = "Retry-After-Ms"

# A lone CR or LF is a line break to some readers: what they would find after it must not exist.
_BLOCK = re.compile(
    rb"NATS/1\.0(?: (\d{3})(?: [^\r\n]*)?)?\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n]*+\r\n)*+)\r\n"
)
_TYPE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")


class Headers(NamedTuple):
    """Parsed headers: the inline status a server writes (``503``), or None, and the named values."""

    status: str | None
    values: dict[str, str]


NO_HEADERS: Final = Headers(None, {})


def encode(values: Mapping[str, str]) -> bytes:
    """Return *values* as NATS/1.0 header bytes.

    Raises ValueError for a value with a line break: a header is never silently rewritten.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in values.items()])
    if lines.count("\n") != len(values) or lines.count("\r") != len(values):
        raise ValueError("a header may not hold a line break")
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def parse(raw: bytes) -> Headers:
    """Return the headers in *raw*; empty bytes are no headers.

    Accepts exactly NATS/1.0 headers: UTF-8, token names, each at most once, one blank line at the end. Blanks
    around a value do not count. Raises :class:`HeadersMalformed` for everything else, and nothing but that.
    """
    if not raw:
        return NO_HEADERS
    block = _BLOCK.fullmatch(raw)
    if block is None:
        raise HeadersMalformed("not a NATS/1.0 header block")
    status, fields = block.groups()
    try:
        lines = fields.decode("utf-8").split("\r\n")
    except UnicodeDecodeError:
        raise HeadersMalformed("a header value is not UTF-8") from None
    del lines[-1]
    values: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        values[name] = value.strip(" \t")
    if len(values) != len(lines):
        raise HeadersMalformed("a header stands twice")
    return Headers(status.decode("ascii") if status else None, values)


def type_name(error: BaseException | type[BaseException]) -> str:
    """Return the type name that may stand in ``Nats-Service-Error``: never a message (section 3)."""
    name = error.__name__ if isinstance(error, type) else type(error).__name__
    return name if _TYPE_NAME.fullmatch(name) else "Error"


def is_type_name(text: str) -> bool:
    """Whether *text* may stand in ``Nats-Service-Error``."""
    return _TYPE_NAME.fullmatch(text) is not None


def whole_ms(text: str | None) -> int | None:
    """Return *text* as whole milliseconds, or None where it is not a plain decimal of at most 15 digits."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        return None
    return int(text)
