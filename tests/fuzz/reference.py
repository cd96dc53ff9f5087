"""What the contract says of bytes, written down a second time and in the plainest way, to judge the first."""

from __future__ import annotations

import math
import string
from typing import Any

MAX_LEVELS = 128
MAX_DIGITS = 4300


class Refused(Exception):
    """The bytes are not what the contract allows."""


# ---- JSON (C3.2) ---------------------------------------------------------------------------------


def read_json(body: bytes) -> Any:
    """Return the one document in *body*; raise :class:`Refused`."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused from None
    reader = _Json(text)
    document = reader.value(1)
    reader.blanks()
    if reader.at != len(text):
        raise Refused
    return document


class _Json:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def blanks(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\n", "\r"):
            self.at += 1

    def take(self, expected: str) -> bool:
        if self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def must(self, expected: str) -> None:
        if not self.take(expected):
            raise Refused

    def value(self, level: int) -> Any:
        self.blanks()
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self.take(word):
                return value
        if self.take('"'):
            return self.rest_of_string()
        # A leaf is not a level: 128 containers within each other are the most.
        if level > MAX_LEVELS and self.text[self.at : self.at + 1] in ("{", "["):
            raise Refused
        if self.take("{"):
            return self.rest_of_object(level)
        if self.take("["):
            return self.rest_of_array(level)
        return self.number()

    def rest_of_object(self, level: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.blanks()
        if self.take("}"):
            return members
        while True:
            self.blanks()
            self.must('"')
            key = self.rest_of_string()
            if key in members:
                raise Refused
            self.blanks()
            self.must(":")
            members[key] = self.value(level + 1)
            self.blanks()
            if self.take("}"):
                return members
            self.must(",")

    def rest_of_array(self, level: int) -> list[Any]:
        items: list[Any] = []
        self.blanks()
        if self.take("]"):
            return items
        while True:
            items.append(self.value(level + 1))
            self.blanks()
            if self.take("]"):
                return items
            self.must(",")

    def rest_of_string(self) -> str:
        units: list[str] = []
        while True:
            character = self.text[self.at : self.at + 1]
            self.at += 1
            if character == '"':
                break
            if not character or character < " ":
                raise Refused
            units.append(self.escape() if character == "\\" else character)
        try:
            # Two escaped surrogates make one character; one alone makes none.
            return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise Refused from None

    def escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter == "u":
            digits = self.text[self.at : self.at + 4]
            self.at += 4
            if len(digits) != 4 or not set(digits) <= set(string.hexdigits):
                raise Refused
            return chr(int(digits, 16))
        known = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
        if letter not in known:
            raise Refused
        return known[letter]

    def digits(self) -> str:
        start = self.at
        while self.text[self.at : self.at + 1] in tuple("0123456789"):
            self.at += 1
        if start == self.at:
            raise Refused
        return self.text[start : self.at]

    def number(self) -> int | float:
        start = self.at
        self.take("-")
        whole = self.digits()
        if whole[0] == "0" and len(whole) > 1:
            raise Refused
        fraction = self.take(".") and bool(self.digits())
        if self.take("e") or self.take("E"):
            fraction = True
            if not self.take("+"):
                self.take("-")
            self.digits()
        if fraction:
            number = float(self.text[start : self.at])
            if not math.isfinite(number):
                raise Refused
            return number
        if len(whole) > MAX_DIGITS:
            raise Refused
        return int(self.text[start : self.at])


# ---- verdicts (§5) -------------------------------------------------------------------------------

_MEMBERS = {"decision", "reason", "message", "warnings", "approval", "transform", "evidence", "result_labels"}


def may_permit(body: bytes) -> bool:
    """Whether *body* has what every permit must have; more may be missing."""
    try:
        document = read_json(body)
    except Refused:
        return False
    if not isinstance(document, dict):
        return False
    verdict = document
    if "verdict" in document:
        if not set(document) <= {"verdict", "extensions"}:
            return False
        verdict = document["verdict"]
    if not isinstance(verdict, dict) or not set(verdict) <= _MEMBERS:
        return False
    # The standard's own gate takes a null member for an absent one.
    transform = verdict.get("transform")
    if verdict.get("approval") is not None:
        return False
    if verdict.get("decision") == "allow":
        return transform is None
    return verdict.get("decision") == "transform" and isinstance(transform, dict) and "path" in transform


# ---- headers (C2.10) -----------------------------------------------------------------------------

_NAME_BYTES = set(b"!#$%&'*+-.^_`|~" + string.ascii_letters.encode() + string.digits.encode())


def read_headers(raw: bytes) -> tuple[str | None, dict[str, str]]:
    """Return status and values of the block *raw*; raise :class:`Refused`."""
    if raw == b"":
        return None, {}
    lines: list[bytes] = []
    rest = raw
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            raise Refused
        if line == b"" and lines:
            break
        if b"\r" in line or b"\n" in line:
            raise Refused
        lines.append(line)
    if rest:
        raise Refused
    status = None
    if lines[0] != b"NATS/1.0":
        words = lines[0].split(b" ")
        if words[0] != b"NATS/1.0" or len(words[1]) != 3 or not all(48 <= byte <= 57 for byte in words[1]):
            raise Refused
        status = words[1].decode()
    values: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or not set(name) <= _NAME_BYTES or name.decode() in values:
            raise Refused
        try:
            values[name.decode()] = value.strip(b" \t").decode("utf-8")
        except UnicodeDecodeError:
            raise Refused from None
    return status, values


# ---- paths (§5.2) --------------------------------------------------------------------------------

_MEMBER = set(string.ascii_letters + string.digits + "_-")


def replaced(target: Any, path: str, value: Any) -> Any:
    """Return a copy of *target* with what stands at *path* replaced by *value*; raise :class:`Refused`."""
    for root in ("$target", "$policy_target"):
        if path.startswith(root):
            return _replaced(target, path[len(root) :], value)
    raise Refused


def _replaced(here: Any, path: str, value: Any) -> Any:
    if path == "":
        return value
    if path[0] == ".":
        end = 1
        while end < len(path) and path[end] in _MEMBER:
            end += 1
        return _member(here, path[1:end], path[end:], value)
    inside, bracket, rest = path[1:].partition("]")
    if path[0] != "[" or not bracket:
        raise Refused
    if len(inside) >= 2 and inside[0] == inside[-1] == '"':
        return _member(here, inside[1:-1], rest, value)
    if not inside or not set(inside) <= set("0123456789") or not isinstance(here, list):
        raise Refused
    digits = inside.lstrip("0") or "0"
    if len(digits) > 9 or int(digits) >= len(here):
        raise Refused
    index = int(digits)
    return [*here[:index], _replaced(here[index], rest, value), *here[index + 1 :]]


def _member(here: Any, name: str, rest: str, value: Any) -> Any:
    if not name or not set(name) <= _MEMBER or not isinstance(here, dict) or name not in here:
        raise Refused
    return {**here, name: _replaced(here[name], rest, value)}
