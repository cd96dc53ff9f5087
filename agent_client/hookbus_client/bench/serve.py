"""Worker processes of the contenders that are not hookbus: bare NATS, HTTP, gRPC.

Each does what a worker has to: it decodes the context, awaits the interceptor, encodes the verdict. Run as
``python -m hookbus_client.bench.serve KIND URL SUBJECT``; a line ``ready ADDRESS`` says where it answers.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any, Final

import msgspec

from hookbus import codec
from hookbus_client.bench.interceptors import allow

_LOOPBACK: Final = "127.0.0.1"
_encode: Final = msgspec.json.Encoder().encode


async def answer(body: bytes) -> bytes:
    """Return the verdict about the context in *body*."""
    verdict = await allow.intercept(codec.decode_context(body))
    return _encode(verdict.to_wire())


async def serve_bare(url: str, subject: str) -> None:
    """Answer requests on *subject* until the process ends."""
    from nats.aio.client import Client
    from nats.aio.msg import Msg

    client = Client()
    await client.connect(url)

    async def respond(message: Msg) -> None:
        await client.publish(message.reply, await answer(message.data))

    await client.subscribe(subject, queue=subject, cb=respond)
    await client.flush()
    _ready(subject)
    await asyncio.Event().wait()


async def serve_http() -> None:
    """Answer POSTs on a free port until SIGTERM, as uvicorn does with its own extras: httptools and uvloop."""
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        parts: list[bytes] = []
        more = True
        while more:
            event = await receive()
            parts.append(event.get("body", b""))
            more = event.get("more_body", False)
        body = await answer(b"".join(parts))
        await send({"type": "http.response.start", "status": 200, "headers": _headers(body)})
        await send({"type": "http.response.body", "body": body})

    listening = socket.create_server((_LOOPBACK, 0), backlog=2048)
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=3600,
        server_header=False,
        date_header=False,
    )
    _ready(f"{_LOOPBACK}:{listening.getsockname()[1]}")
    await uvicorn.Server(config).serve(sockets=[listening])


def _headers(body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]


async def serve_grpc() -> None:
    """Answer calls on a free port until the process ends."""
    import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types

    from hookbus_client.bench.transports import GRPC_METHOD, GRPC_OPTIONS

    async def intercept(body: bytes, _context: object) -> bytes:
        return await answer(body)

    _, service, method = GRPC_METHOD.split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(intercept)}
    server = grpc.aio.server(options=GRPC_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port(f"{_LOOPBACK}:0")
    await server.start()
    _ready(f"{_LOOPBACK}:{port}")
    await server.wait_for_termination()


def _ready(address: str) -> None:
    print(f"ready {address}", flush=True)


def main() -> None:
    """Serve as the arguments say."""
    kind, url, subject = sys.argv[1:4]
    match kind:
        case "bare":
            asyncio.run(serve_bare(url, subject))
        case "http":
            import uvloop

            uvloop.run(serve_http())
        case "grpc":
            asyncio.run(serve_grpc())


if __name__ == "__main__":
    main()
