"""What a server sends is handed over whole, in order and once, however it is cut on its way."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookbus.incoming import MAX_LINE_BYTES, MAX_MESSAGE_BYTES, Incoming

Message = tuple[int, bytes, bytes, bytes, bytes]

_words = st.text("abc.XYZ0_$", min_size=1, max_size=12).map(str.encode)
_blocks = st.binary(max_size=40)
_messages = st.tuples(
    st.integers(1, 10**9),
    _words,
    st.just(b"") | _words,
    st.just(b"") | _blocks.map(lambda b: b"NATS/1.0" + b),
    _blocks,
)
_lines = st.sampled_from([b"PING", b"PONG", b"+OK", b"-ERR 'Permissions Violation'", b"INFO {}"])


class Heard:
    """An :class:`Incoming` and all that it has said."""

    def __init__(self) -> None:
        self.said: list[Message | bytes] = []
        self.ends: list[str] = []
        self.incoming = Incoming(lambda *message: self.said.append(message), self.said.append, self.ends.append)

    def take(self, data: bytes, *, at_most: int = 2**30) -> None:
        """Give *data* as a transport does: as much at a time as there is room for."""
        while data:
            room = self.incoming.get_buffer(-1)
            part = data[: min(len(room), at_most)]
            assert part, "there is no room left"
            room[: len(part)] = part
            self.incoming.buffer_updated(len(part))
            data = data[len(part) :]


def written(said: Message | bytes) -> bytes:
    if isinstance(said, bytes):
        return said + b"\r\n"
    sid, subject, reply, headers, body = said
    words = [b"HMSG" if headers else b"MSG", subject, b"%d" % sid]
    words += [reply] if reply else []
    words += [b"%d" % len(headers)] if headers else []
    words += [b"%d" % (len(headers) + len(body))]
    return b" ".join(words) + b"\r\n" + headers + body + b"\r\n"


@given(st.lists(_messages | _lines), st.integers(1, 64))
def test_however_a_stream_is_cut_the_same_comes_out(said: list[Message | bytes], at_most: int) -> None:
    heard = Heard()
    heard.take(b"".join(map(written, said)), at_most=at_most)
    assert heard.said == said
    assert heard.ends == []


@given(st.lists(_messages | _lines, max_size=5), st.binary(max_size=200))
def test_any_bytes_are_handed_over_or_end_the_connection_once(said: list[Message | bytes], junk: bytes) -> None:
    heard = Heard()
    heard.take(b"".join(map(written, said)) + junk)
    heard.take(junk)
    heard.incoming.connection_lost(None)
    assert heard.said[: len(said)] == said
    assert len(heard.ends) == 1


@pytest.mark.parametrize(
    "junk",
    [
        b"MSG a 1 -1\r\n",
        b"MSG a 1 1_0\r\n",
        b"MSG a x 1\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 b c 1\r\n",
        b"MSG a 1 2\r\nabcd",
        b"MSG a 1 %d\r\n" % (MAX_MESSAGE_BYTES + 1),
        b"MSG a 1 99999999999999999999\r\n",
        b"HMSG a 1 5 4\r\nabcd\r\n",
        b"HMSG a 1 4\r\nabcd\r\n",
        b"x" * MAX_LINE_BYTES,
    ],
)
def test_what_is_not_the_protocol_ends_the_connection(junk: bytes) -> None:
    heard = Heard()
    heard.take(junk)
    assert (heard.said, heard.ends) == ([], ["what came is not the NATS protocol"])


@pytest.mark.parametrize("size", [0, 64 * 1024, 128 * 1024, 128 * 1024 + 1, 5_000_000])
@pytest.mark.parametrize("at_most", [4096, 2**30])
def test_a_message_of_any_size_arrives_whole_between_others(size: int, at_most: int) -> None:
    large: Message = (7, b"a", b"r", b"NATS/1.0\r\n\r\n", b"z" * size)
    small: Message = (8, b"b", b"", b"", b"x")
    heard = Heard()
    heard.take(b"".join(map(written, [small, large, b"PING", large, small])), at_most=at_most)
    assert heard.said == [small, large, b"PING", large, small]


def test_what_is_read_after_the_end_is_handed_to_nobody() -> None:
    heard = Heard()
    heard.incoming.stop()
    heard.take(b"PING\r\n")
    heard.incoming.connection_lost(OSError())
    assert (heard.said, heard.ends) == ([], [])


def test_who_stops_the_reading_from_within_hears_nothing_more() -> None:
    said: list[bytes] = []
    incoming = Incoming(lambda *_: None, lambda line: (said.append(line), incoming.stop()), said.append)
    incoming.feed(b"PING\r\nPONG\r\n")
    assert said == [b"PING"]


def test_the_room_for_a_large_message_is_given_back() -> None:
    heard = Heard()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        heard.take(written((1, b"a", b"", b"", b"z" * 8_000_000)))
        heard.said.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_500_000
