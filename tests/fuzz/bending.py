"""What is almost right: JSON, headers, subjects and TOML, changed token by token.

Everything is drawn from a `random.Random`, which in the suite is hypothesis's own, so a failure is shrunk there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Tokens = list[bytes]

_JSON = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+0-9.eE]+|[a-zA-Z]+|[{}\[\]:,]|\s+|.', re.DOTALL)
_HEADER = re.compile(rb"\r\n|[A-Za-z0-9-]+|[ \t]+|.", re.DOTALL)
_SUBJECT = re.compile(rb"\.|[^.]+", re.DOTALL)
_TOML = re.compile(rb'\n|"[^"\n]*"|[A-Za-z0-9_.-]+|\s|.', re.DOTALL)

_LONG = 5_000
_JSON_PIECES: Sequence[bytes] = (
    *(b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"0", b"-0", b"01", b"1e999", b"1E+2", b".5", b"0x1"),
    *(b"9007199254740993", b"18446744073709551616", b"9" * 4301, b"1." + b"0" * 400, b'"allow"', b'"deny"'),
    *(b'"Allow"', b'"ALLOW"', b'"allow "', b'"\\u0061llow"', b'"al\\u006cow"', b'"allow\\u0000"', b'"transform"'),
    *(
        b'"permit"',
        b'"decision"',
        b'"Decision"',
        b'"\\u0064ecision"',
        b'"verdict"',
        b'"approval"',
        b'"extensions"',
    ),
    *(b'"decision":"allow",', b',"decision":"deny"', b'{"decision":"allow"}', b'{"decision":"deny"}'),
    *(b"{}", b"[]", b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"'", b"//", b"/**/", b" ", b"\n", b"\x00"),
    *(
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b"\xf0\x9f\x9a\x80",
    ),
    *(b"[" * 129 + b"]" * 129, b"[" * 3000, b'{"a":' * 200 + b"1" + b"}" * 200, b'"' + b"x" * _LONG + b'"'),
    *(b'"host_error:mine"', b'"$target"', b"\xe2\x80\xa8", b"\x0b", b"\xc2\xa0"),
)
_HEADER_PIECES: Sequence[bytes] = (
    *(b"\r\n", b"\r", b"\n", b"\n\n", b"\r\n\r\n", b"\r\n ", b"\r\n\t", b" ", b"\t", b":", b": ", b"", b"\x00"),
    *(b"NATS/1.0", b"NATS/1.1", b"nats/1.0", b" 503", b" 503 No Responders", b" 200", b" 5O3", b" 99999", b"\xff"),
    *(
        b"\xc3\xa9",
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"0",
        b"1",
        b"2",
        b"-1",
        b"+1",
        b"1e9",
        b"1_0",
        b"9" * 16,
        b"x" * _LONG,
    ),
    *(
        b"\xd9\xa1",
        b"Hb-Id",
        b"hb-id",
        b"Hb-Id ",
        b"Hb-Contract",
        b"Hb-Interceptor",
        b"Hb-Budget-Ms",
        b"Hb-Expires-Ms",
    ),
    *(b"Nats-Service-Error-Code: 500\r\n", b"Nats-Service-Error-Code: 0\r\n", b"Nats-Service-Error-Code:\r\n"),
    *(
        b"Hb-Id: other\r\n",
        b"Hb-Interceptor: other\r\n",
        b"Hb-Contract: 2\r\n",
        b"Hb-Signature: AAAA\r\n",
        b"a: b\r\n",
    ),
)
_SUBJECT_PIECES: Sequence[bytes] = (
    *(b".", b"..", b"*", b">", b"", b"hb", b"v1", b"v2", b"ctx", b"ans", b"default", b"policy", b"pre_tool_call"),
    *(
        b"bot",
        b"Bot",
        b"x-",
        b"x-abc",
        b"$SRV",
        b"$JS.API",
        b"_INBOX",
        b"\xc3\xa9",
        b"\x7f",
        b"a" * 65,
        b"a" * 5000,
    ),
)
_TOML_PIECES: Sequence[bytes] = (
    *(b"\n", b"=", b"[", b"]", b"[[", b"]]", b"{", b"}", b",", b'"', b"'", b'"""', b"#", b"\\", b".", b"\r"),
    *(b"true", b"nan", b"inf", b"-inf", b"0", b"-1", b"1e400", b"0x10", b"0o8", b"9" * 5000, b"2026-11-30"),
    *(b"07:32:00", b"[agents]\n", b"[workers]\n", b"agents.x", b"[] ", b"{} ", b"[" * 2000, b"a." * 1500),
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b'"' + b"x" * 5000 + b'"', b'"nats://[::1"', b'"nats://h:99999"'),
    *(b'"nats://h:x"', b'"tls://"', b'"nats://:0"', b'","', b'"nats://127.0.0.1:1,nats://[x]"', b'"\\u0000"'),
    *(b'"/"', b'"."', b'""', b"1e-400", b"1_0"),
)


def bent_json(random: Random, raw: bytes) -> bytes:
    """Return *raw*, which is JSON, with a few tokens changed, or as it is."""
    return _bent(random, _JSON.findall(raw), _JSON_PIECES)


def bent_headers(random: Random, raw: bytes) -> bytes:
    """Return *raw*, which is a header block, with a few tokens changed, or as it is."""
    return _bent(random, _HEADER.findall(raw), _HEADER_PIECES)


def bent_subject(random: Random, text: str) -> str:
    """Return *text*, which is a subject, with a few tokens changed, or as it is; never with a blank."""
    return _bent(random, _SUBJECT.findall(text.encode()), _SUBJECT_PIECES).decode("utf-8", "replace")


def bent_toml(random: Random, raw: bytes) -> bytes:
    """Return *raw*, which is TOML, with a few tokens changed, or as it is."""
    return _bent(random, _TOML.findall(raw), _TOML_PIECES)


def _bent(random: Random, tokens: Tokens, pieces: Sequence[bytes]) -> bytes:
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        if not tokens:
            tokens = [b""]
        random.choice(_BENDS)(random, tokens, random.choice(pieces))
    return b"".join(tokens)


def _replace(random: Random, tokens: Tokens, piece: bytes) -> None:
    tokens[random.randrange(len(tokens))] = piece


def _insert(random: Random, tokens: Tokens, piece: bytes) -> None:
    tokens.insert(random.randrange(len(tokens) + 1), piece)


def _remove(random: Random, tokens: Tokens, _piece: bytes) -> None:
    del tokens[random.randrange(len(tokens))]


def _repeat(random: Random, tokens: Tokens, _piece: bytes) -> None:
    start = random.randrange(len(tokens))
    end = min(len(tokens), start + random.choice((1, 2, 4, 8)))
    tokens[end:end] = tokens[start:end]


def _swap(random: Random, tokens: Tokens, _piece: bytes) -> None:
    first, second = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[first], tokens[second] = tokens[second], tokens[first]


def _truncate(random: Random, tokens: Tokens, _piece: bytes) -> None:
    del tokens[random.randrange(len(tokens)) :]


def _change_case(random: Random, tokens: Tokens, _piece: bytes) -> None:
    index = random.randrange(len(tokens))
    tokens[index] = random.choice((bytes.upper, bytes.lower, bytes.swapcase, bytes.title))(tokens[index])


def _nest(random: Random, tokens: Tokens, _piece: bytes) -> None:
    opening, closing = random.choice(
        ((b"[", b"]"), (b"{", b"}"), (b'{"verdict":', b"}"), (b'"', b'"'), (b" ", b" "))
    )
    start = random.randrange(len(tokens))
    end = random.randrange(start, len(tokens)) + 1
    tokens[start:end] = [opening, *tokens[start:end], closing]


def _cut_a_byte(random: Random, tokens: Tokens, _piece: bytes) -> None:
    index = random.randrange(len(tokens))
    at = random.randrange(len(tokens[index]) + 1)
    tokens[index] = tokens[index][:at] + tokens[index][at + 1 :]


_BENDS: Sequence[Callable[[Random, Tokens, bytes], None]] = (
    _replace,
    _replace,
    _insert,
    _insert,
    _remove,
    _repeat,
    _swap,
    _truncate,
    _change_case,
    _nest,
    _cut_a_byte,
)
