"""What bent input once got through, each by itself."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from random import Random

import nkeys
import pytest

import hookbus
from hookbus import HeadersMalformed, envelope
from hookbus.errors import SettingsInvalid
from hookbus.settings import read_settings
from hookbus.signing import Signer, read_trust
from hookbus_client import BusEmitter
from tests.client.scripted import Local, until
from tests.contract.strategies import POINT_FIELDS
from tests.fuzz.questions import ASKER, Case, Questions

pytestmark = pytest.mark.anyio

TOO_DEEP = "[" * 5000
TOO_LONG = "9" * 5000


@pytest.mark.parametrize("zeros", [0, 3, 5000])
async def test_zeros_in_front_of_an_index_count_for_nothing_however_many(zeros: int) -> None:
    """More digits than Python reads ended the emission with a ValueError and without a record."""
    path = f"$target[{'0' * zeros}0]"
    transform = {"decision": "transform", "transform": {"path": path, "value": 1}}
    emitter = BusEmitter(identity_provider=None).register(Local(transform))
    context = {
        "spec": "agent-hooks/0.1",
        "interception_point": "pre_tool_call",
        "timestamp": "2026-11-30T12:00:00Z",
        "sequence": 0,
        "agent": {"id": "bot", "framework": "test"},
        "session": {"id": "s"},
        "target": [0],
        "tool_call": dict.fromkeys(POINT_FIELDS["pre_tool_call"]["tool_call"], "x"),
    }
    record = await emitter.emit_unchecked(context)
    assert record.proceeds
    assert context["target"] == [1]


def test_a_lone_line_break_in_the_status_line_is_malformed() -> None:
    for between in (b"\r", b"\n", b"\r\r\n"):
        with pytest.raises(HeadersMalformed):
            envelope.parse(b"NATS/1.0 503 No Responders" + between + b"Hb-Id: 1\r\n\r\n")


@pytest.mark.parametrize("written", [f"x = {TOO_DEEP}", f"x = {TOO_LONG}"])
def test_more_levels_or_digits_than_python_reads_are_not_toml(tmp_path: Path, written: str) -> None:
    path = tmp_path / "file.toml"
    path.write_text(written)
    for read in (read_settings, read_trust):
        with pytest.raises(SettingsInvalid, match="is not TOML"):
            read(path)


def test_a_path_that_no_file_system_takes_is_a_setting_that_is_wrong() -> None:
    with pytest.raises(SettingsInvalid, match=r"creds .* cannot be looked at"):
        read_settings(creds="x" * 5000)


@pytest.mark.parametrize(
    "url", ["nats://u:s3cr3t/w@h:1", "nats://h:s3cr3t", "nats://[s3cr3t]:1", "nats://", "nats://h:99999"]
)
def test_a_server_without_a_host_or_a_port_is_a_setting_that_is_wrong_and_none_of_it_is_told(url: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        read_settings(url=url)
    assert "s3cr3t" not in str(refused.value)


def test_a_key_whose_signatures_nobody_accepts_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "account.nk"
    path.write_bytes(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_ACCOUNT))
    with pytest.raises(SettingsInvalid, match="not that of a user"):
        Signer.from_file(path)


async def test_a_signature_covers_the_expiry_to_the_letter() -> None:
    """With zeros put in front, the same instant passed for what was signed."""
    async with Questions() as target:
        signed = [b"Hb-Id: @id@", b"Hb-Signature: @signature@", b"Hb-Key: " + ASKER.key.encode()]
        exact = _exact_question(target, [*signed, b"Hb-Expires-Ms: @later@"])
        assert await target.check(exact) == "evaluated"
        raw = exact.headers.replace(b"@later@", b"0@later@")
        assert await target.check(exact._replace(headers=raw, exact=False)) == "rejected 400"


def _exact_question(target: Questions, lines: list[bytes]) -> Case:
    """Return the first exact question that is drawn where keys are demanded, with these header lines."""
    drawn = (target.case(Random(number)) for number in itertools.count())
    case = next(case for case in drawn if case.exact and case.demands_keys)
    return case._replace(headers=b"".join(line + b"\r\n" for line in [b"NATS/1.0", *lines, b""]))


async def test_a_server_that_tells_of_addresses_that_are_none_does_not_end_the_connecting() -> None:
    """The attempt to join them raised, and nobody tried again."""
    info = {"server_id": "x", "version": "2.12.0", "max_payload": 1 << 20, "headers": True, "proto": 1}
    info["connect_urls"] = ["127.0.0.1:99999", "127.0.0.1:port"]
    taken: list[asyncio.StreamWriter] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        writer.write(f"INFO {json.dumps(info)}\r\n".encode())
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with hookbus.connect(f"nats://127.0.0.1:{port}") as bus:
            taken[-1].transport.abort()
            await until(lambda: bus.reconnects == 1)
