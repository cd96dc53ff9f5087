"""Bodies: a context out and in, and a parse for everything else, with the traps of JSON closed.

What a worker decodes is exactly what the agent holds: a value that the wire would change (NaN, a set, a date,
a lone surrogate, a key that is not a string) is refused before anything is sent (AGENT-HOOKS-0.1 §4.4).
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from hookbus.errors import OutOfDomain, Undecodable

#: Levels of arrays and objects, counted from the document itself. One more level is left for the value in
#: the innermost one, which makes the 128 of the contract and of AGENT-HOOKS-0.1 §12.3.
MAX_LEVELS: Final = 127
#: The largest integer that every reader holds exactly (RFC 7493, §10.2).
MAX_SAFE_INTEGER: Final = 2**53 - 1

#: Python neither writes nor reads an integer of more digits than this (its ``int_max_str_digits``).
MAX_DIGITS: Final = 4300
_TOO_LONG: Final = 10**MAX_DIGITS

#: A JSON document as Python holds it; whoever reads it narrows it.
Json: TypeAlias = Any

_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder().decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
#: From this size on it pays to look whether a context holds its target twice.
_LARGE_BYTES: Final = 16 * 1024


class Domain(msgspec.Struct, frozen=True):
    """What a walk over a value found that later steps must know."""

    #: Some number is written as a fraction.
    fractions: bool
    #: Some integer is beyond ±(2^53 − 1).
    big_integers: bool
    #: Some key holds a character beyond U+FFFF, which sorts differently in UTF-16.
    astral_keys: bool
    #: Some value is of a subclass (an enum, a str subclass), which msgspec does not write the way json does.
    subclassed: bool

    @property
    def sorts_exactly(self) -> bool:
        """Whether sorted msgspec output is the RFC 8785 form of the value."""
        return not (self.fractions or self.big_integers or self.astral_keys or self.subclassed)


def survey(value: Json) -> Domain:
    """Walk *value* once and return what it holds; raise :class:`OutOfDomain` where the wire cannot carry it.

    Refuses numbers that are not finite, integers of more than 4,300 digits, keys that are not strings, types
    that JSON does not have, and more than 128 levels. Level by level, so depth costs no stack.
    """
    fractions = big_integers = astral_keys = subclassed = False
    level: list[Json] = [[value]]
    # The wrapping list above is level 0; the document is level 1.
    for _ in range(MAX_LEVELS + 1):
        below: list[Json] = []
        for container in level:
            if isinstance(container, dict):
                for key in container:
                    if type(key) is not str:
                        if not isinstance(key, str):
                            raise OutOfDomain("a key is not a string")
                        subclassed = True
                    if not astral_keys and not key.isascii():
                        astral_keys = max(key) > "\uffff"
                values = container.values()
            else:
                values = container
            for item in values:
                kind = type(item)
                if kind is str or item is None or kind is bool:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is int:
                    if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                        big_integers = True
                        _check_digits(item)
                elif kind is float:
                    fractions = True
                    if not math.isfinite(item):
                        raise OutOfDomain("a number is not finite")
                else:
                    subclassed |= kind is not tuple
                    if isinstance(item, dict | list | tuple):
                        below.append(item)
                    elif isinstance(item, float):
                        fractions = True
                        if not math.isfinite(item):
                            raise OutOfDomain("a number is not finite")
                    elif isinstance(item, int):
                        big_integers |= not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER
                        _check_digits(item)
                    elif not isinstance(item, str):
                        raise OutOfDomain("a value is of a type that JSON does not have")
        if not below:
            return Domain(fractions, big_integers, astral_keys, subclassed)
        level = below
    raise OutOfDomain("more than 128 levels")


def _check_digits(number: int) -> None:
    if not -_TOO_LONG < number < _TOO_LONG:
        raise OutOfDomain(f"an integer has more than {MAX_DIGITS} digits")


def encode(value: Json, domain: Domain) -> bytes:
    """Return *value*, which :func:`survey` described as *domain*, as UTF-8 JSON.

    Integers and fractions survive exactly. Raises :class:`OutOfDomain` for a lone surrogate.
    """
    try:
        if domain.subclassed:
            return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
        return _encode(value)
    except UnicodeEncodeError:
        raise OutOfDomain("a string holds a lone surrogate") from None


def encode_sorted(value: Json) -> bytes:
    """Return *value*, which :func:`survey` accepted, as UTF-8 JSON with sorted keys.

    It is the RFC 8785 form of a value whose :class:`Domain` sorts exactly (every escape class is tested).
    Raises :class:`OutOfDomain` for a lone surrogate.
    """
    try:
        return _encode_sorted(value)
    except UnicodeEncodeError:
        raise OutOfDomain("a string holds a lone surrogate") from None


def decode_context(body: bytes) -> dict[str, Json]:
    """Return the context in *body*, a fresh one at every call; raise :class:`Undecodable` otherwise.

    In a large one, a field that is written exactly like the target, as ``messages`` is (§4.3), is the target: one
    object, as in a host that shares it.

    A context comes from the agent it describes, so a key that stands twice is not refused here as it is in
    an answer: it could only mislead the control of the agent that wrote it.
    """
    try:
        document = _decode(body) if len(body) < _LARGE_BYTES else _decode_sharing(body)
    except RecursionError:
        raise Undecodable("more than 128 levels") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Undecodable("malformed") from None
    if not isinstance(document, dict):
        raise Undecodable("the document is not an object")
    return document


def _decode_sharing(body: bytes) -> dict[str, Json]:
    fields = _decode_fields(body)
    written = fields.get("target")
    target = None if written is None else _decode(written)
    return {name: target if field == written else _decode(field) for name, field in fields.items()}


def parse_strictly(body: bytes) -> Json:
    """Return the one JSON document in *body*; any bytes either parse or raise :class:`Undecodable`.

    Closed here: duplicate keys, NaN and Infinity, numbers out of range, a lone surrogate, a byte-order mark,
    invalid UTF-8, more than 128 levels, trailing bytes. (Contract, section 3.)
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Undecodable("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise Undecodable("a byte-order mark")
    try:
        document = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
        survey(document)
        _encode(document)
    except RecursionError:
        raise Undecodable("more than 128 levels") from None
    except (OutOfDomain, UnicodeEncodeError) as error:
        why = error.why if isinstance(error, OutOfDomain) else "a lone surrogate"
        raise Undecodable(why) from None
    except json.JSONDecodeError:
        raise Undecodable("malformed") from None
    return document


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Undecodable("a key stands twice")
    return found


def _constant(_name: str) -> NoReturn:
    raise Undecodable("a number is not finite")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Undecodable("a number is out of range")
    return number


def _int(text: str) -> int:
    # Python refuses to parse more than 4,300 digits; so do we, as one known error.
    try:
        return int(text)
    except ValueError:
        raise Undecodable("a number is out of range") from None
