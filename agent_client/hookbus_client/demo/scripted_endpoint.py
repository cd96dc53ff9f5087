"""A model that is a script: an OpenAI-compatible endpoint on the loopback interface.

Any client of ``/v1/chat/completions`` talks to it as to a real model, whole or streaming; what it says is
decided by a plain function over the conversation so far.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from email.message import Message as Headers
from email.parser import BytesHeaderParser
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteSendStream, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from hookbus_client.demo.chat_wire import ChatRequest, Message, Reply, Tool, ToolCall, chunks, completion

__all__ = ["Message", "Reply", "Script", "Tool", "ToolCall", "scripted_endpoint"]

#: Decides what the model says next, from the messages so far and the tools on offer.
Script = Callable[[Sequence[Message], Sequence[Tool]], Reply]

_MAX_HEAD_BYTES = 64 * 1024

_decode_request = msgspec.json.Decoder(ChatRequest).decode


@asynccontextmanager
async def scripted_endpoint(scripts: Mapping[str, Script]) -> AsyncIterator[str]:
    """Yield the base URL of an endpoint that answers for every model that *scripts* names.

    The mapping is consulted at each request, so that scripts may come and go while the endpoint serves.
    Leaving the context closes every connection. A script that raises ends the context with a group that holds
    its exception: a mistake in a script is a mistake of the program, not of the client.
    """
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)
    numbers = itertools.count(1)
    async with listener, anyio.create_task_group() as connections:
        connections.start_soon(listener.serve, partial(_serve_connection, scripts, numbers))
        yield f"http://127.0.0.1:{port}/v1"
        connections.cancel_scope.cancel()


async def _serve_connection(scripts: Mapping[str, Script], numbers: Iterator[int], stream: SocketStream) -> None:
    client_left = anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound
    reader = BufferedByteReceiveStream(stream)
    async with stream:
        with suppress(*client_left):
            while True:
                target, body = await _read_request(reader)
                await _answer(stream, target, body, scripts, next(numbers))


async def _read_request(reader: BufferedByteReceiveStream) -> tuple[str, bytes]:
    """Return the method and path of the next request, and its body (which has to have a length)."""
    head = await reader.receive_until(b"\r\n\r\n", _MAX_HEAD_BYTES)
    request_line, _, header_lines = head.partition(b"\r\n")
    target, _, _version = request_line.decode("latin-1").rpartition(" ")
    headers: Headers = BytesHeaderParser().parsebytes(header_lines)
    length = int(headers.get("Content-Length", "0"))
    return target, await reader.receive_exactly(length) if length else b""


async def _answer(
    stream: ByteSendStream, target: str, body: bytes, scripts: Mapping[str, Script], number: int
) -> None:
    if target != "POST /v1/chat/completions":
        await _send_error(stream, HTTPStatus.NOT_FOUND, "this endpoint serves POST /v1/chat/completions only")
        return
    try:
        request = _decode_request(body)
    except msgspec.DecodeError:
        await _send_error(stream, HTTPStatus.BAD_REQUEST, "the body is not a chat completion request")
        return
    if request.model not in scripts:
        await _send_error(stream, HTTPStatus.NOT_FOUND, "no script answers for this model")
        return
    reply = scripts[request.model](request.messages, request.tools or [])
    if request.stream:
        await _send_events(stream, chunks(request, reply, number=number))
    else:
        await _send_json(stream, HTTPStatus.OK, completion(request, reply, number=number))


async def _send_error(stream: ByteSendStream, status: HTTPStatus, message: str) -> None:
    await _send_json(stream, status, {"error": {"message": message, "type": "invalid_request_error"}})


async def _send_json(stream: ByteSendStream, status: HTTPStatus, value: dict[str, Any]) -> None:
    body = msgspec.json.encode(value)
    await stream.send(_head(status, "application/json", f"Content-Length: {len(body)}") + body)


async def _send_events(stream: ByteSendStream, events: Iterator[dict[str, Any]]) -> None:
    """Send server-sent events, each in a transfer chunk of its own, and the protocol's closing event."""
    await stream.send(_head(HTTPStatus.OK, "text/event-stream", "Transfer-Encoding: chunked"))
    for event in itertools.chain(map(msgspec.json.encode, events), [b"[DONE]"]):
        line = b"data: " + event + b"\n\n"
        await stream.send(b"%x\r\n%s\r\n" % (len(line), line))
    await stream.send(b"0\r\n\r\n")


def _head(status: HTTPStatus, content_type: str, framing: str) -> bytes:
    lines = f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {content_type}", framing, "", ""
    return "\r\n".join(lines).encode()
