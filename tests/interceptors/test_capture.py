"""Capturing: what is stored, who can read it, what a crash and a tamperer leave, and what a full disk does."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as trying
from hypothesis import strategies as st

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors import Worker
from hookbus_interceptors.authoring.testing import TestClient
from hookbus_interceptors.capture import Capture
from hookbus_interceptors.capture.errors import CaptureFailed, FolderNotPrivate, KeyInvalid, NothingCaptured
from hookbus_interceptors.capture.reading import Captured
from hookbus_interceptors.capture.sealing import new_pair, read_private, read_public
from hookbus_interceptors.capture.segment import SegmentWriter
from hookbus_interceptors.capture.spool import Spool
from hookbus_interceptors.configuration import ConfigurationInvalid
from tests.interceptors.capturing import (
    NOON,
    PRIVATE_KEY,
    PRIVATE_PEM,
    PUBLIC_PEM,
    capture,
    read,
    segments,
    settings,
)
from tests.worker import asking
from tests.worker.processes import WorkerProcess

pytestmark = pytest.mark.anyio

SECRET = "the-password-is-swordfish"


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> Any:
        return self.now


def stored(spool: Spool, *texts: bytes) -> None:
    """Hand over *texts* one after the other, each once the one before is on disk."""
    for text in texts:
        spool.store(text).result(timeout=30)


def written(folder: Path, *texts: bytes, end: bool = True) -> Path:
    """The one segment, with a record for each of *texts*."""
    folder.mkdir(mode=0o700, exist_ok=True)
    writer = SegmentWriter(folder, PRIVATE_KEY.public_key(), NOON)
    writer.append([text_of(text) for text in texts])
    if end:
        writer.end()
    else:
        writer.abandon()
    (path,) = segments(folder)
    return path


def text_of(content: bytes) -> bytes:
    return b'{"at_ms":1,"question":"q","context":{"said":"%s"}}' % content


# ---- what is stored ----------------------------------------------------------------------------------


def test_every_point_is_allowed_and_stored_exactly_as_it_was_asked(tmp_path: Path) -> None:
    client = TestClient(capture(tmp_path / "kept"))
    args = {"amount": 1.0, "big": 2**70, "text": SECRET, "none": None, "deep": [[{"ñ": "🎈"}]]}
    answers = [
        client.agent_startup(["pay"]),
        client.input("hello"),
        client.pre_model_call([{"role": "user", "content": "hello"}]),
        client.post_model_call("hi"),
        client.pre_tool_call("pay", args, question_id="the-id"),
        client.post_tool_call("pay", args, value="done"),
        client.output("bye"),
        client.agent_shutdown(),
    ]
    assert all(answer.permits and not answer.warnings and answer.transform is None for answer in answers)
    records, captured = read(tmp_path / "kept")
    assert [record.context["interception_point"] for record in records] == [
        "agent_startup",
        "input",
        "pre_model_call",
        "post_model_call",
        "pre_tool_call",
        "post_tool_call",
        "output",
        "agent_shutdown",
    ]
    call = records[4]
    assert call.question == "the-id"
    assert call.context["tool_call"]["args"] == args
    assert type(call.context["tool_call"]["args"]["amount"]) is float
    assert captured.findings.records == 8
    assert not captured.findings.tampered


def test_nothing_of_a_context_can_be_read_in_the_file(tmp_path: Path) -> None:
    TestClient(capture(tmp_path / "kept")).pre_tool_call("pay", {"text": SECRET})
    (path,) = segments(tmp_path / "kept")
    on_disk = path.read_bytes()
    assert SECRET.encode() not in on_disk
    assert b"pre_tool_call" not in on_disk


def test_another_key_opens_nothing_and_is_no_tampering(tmp_path: Path) -> None:
    written(tmp_path / "kept", b"one")
    other = read_private(new_pair()[0])
    captured = Captured(tmp_path / "kept", other)
    assert list(captured.records()) == []
    assert captured.findings.other_key == 1
    assert captured.findings.tampered == 0


def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        TestClient(capture(tmp_path / "kept")).input("hello")
    finally:
        os.umask(before)
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in segments(tmp_path / "kept")] == [0o600]


def test_a_folder_that_others_may_enter_is_refused_and_the_question_denied(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(FolderNotPrivate, match="chmod 700"):
        Spool(settings(folder)).open()
    assert TestClient(capture(folder)).input("hello").reason == "capture:not-stored"
    assert segments(folder) == []


def test_a_configuration_without_a_key_is_refused_and_names_no_word_of_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(PRIVATE_PEM.decode())
    (tmp_path / "capture.toml").write_text(f'folder = "{tmp_path}/kept"\npublic_key = "key"\n')
    with pytest.raises(ConfigurationInvalid, match="no public key") as refused:
        Capture.from_config(tmp_path / "capture.toml")
    assert PRIVATE_PEM.decode().splitlines()[1] not in str(refused.value)


def test_a_private_key_with_a_passphrase_opens_with_it_alone() -> None:
    private_pem, public_pem = new_pair("open sesame")
    opened = read_private(private_pem, "open sesame").public_key().public_bytes_raw()
    assert opened == read_public(public_pem).public_bytes_raw()
    for wrong in (None, "", "sesame"):
        with pytest.raises(KeyInvalid):
            read_private(private_pem, wrong)


# ---- a crash, and a tamperer -------------------------------------------------------------------------


@pytest.mark.parametrize("cut_bytes", [1, 2, 20])
def test_a_torn_last_record_is_skipped_and_counted_and_those_before_are_read(
    tmp_path: Path, cut_bytes: int
) -> None:
    path = written(tmp_path / "kept", b"one", b"two", end=False)
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    records, captured = read(tmp_path / "kept")
    assert [record.context["said"] for record in records] == ["one"]
    assert (captured.findings.torn, captured.findings.unended, captured.findings.tampered) == (1, 1, 0)


def test_a_cut_at_the_end_of_a_line_leaves_a_segment_without_its_end(tmp_path: Path) -> None:
    path = written(tmp_path / "kept", b"one", b"two")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    records, captured = read(tmp_path / "kept")
    assert len(records) == 1
    assert captured.findings.unended == 1


def _without(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: lines[:number] + lines[number + 1 :]


def _exchanged(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2], lines[1], *lines[3:]]


def _doubled(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[1], *lines[2:]]


def _after_the_end(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[1]]


def _early_end(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[-1]]


def _renamed(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b"20261130T", b"20261129T"), *lines[1:]]


def _joined(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1][:-1], *lines[2:]]


@pytest.mark.parametrize(
    "tampering",
    [_without(1), _without(2), _exchanged, _doubled, _after_the_end, _early_end, _renamed, _joined],
    ids=[
        "first missing",
        "middle missing",
        "exchanged",
        "doubled",
        "after the end",
        "early end",
        "renamed",
        "joined",
    ],
)
def test_lines_that_were_moved_taken_or_added_are_counted_as_tampered(
    tmp_path: Path, tampering: Callable[[list[bytes]], list[bytes]]
) -> None:
    path = written(tmp_path / "kept", b"one", b"two", b"three")
    path.write_bytes(b"".join(tampering(path.read_bytes().splitlines(keepends=True))))
    records, captured = read(tmp_path / "kept")
    assert captured.findings.tampered >= 1
    # What is still believed stands where it stood.
    said = [record.context["said"] for record in records]
    assert said == [("one", "two", "three")[record.place.number] for record in records]


@trying(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_changed_bit_ever_yields_another_record(tmp_path: Path, at: int, bit: int) -> None:
    folder = tmp_path / f"{at}-{bit}"
    path = next(iter(segments(folder)), None) if folder.exists() else None
    path = path or written(folder, b"one", b"two")
    whole = bytearray(path.read_bytes())
    whole[at % len(whole)] ^= 1 << bit
    path.write_bytes(whole)
    records, captured = read(folder)
    findings = captured.findings
    assert [record.context["said"] for record in records] in ([], ["one"], ["two"], ["one", "two"])
    assert findings.tampered + findings.torn + findings.unended + findings.other_key >= 1


def test_a_record_copied_into_another_segment_is_not_believed(tmp_path: Path) -> None:
    one = written(tmp_path / "one", b"one", b"two")
    other = written(tmp_path / "other", b"three", b"four")
    stolen, lines = one.read_bytes().splitlines(keepends=True), other.read_bytes().splitlines(keepends=True)
    other.write_bytes(b"".join([lines[0], stolen[1], *lines[2:]]))
    records, captured = read(tmp_path / "other")
    assert [record.context["said"] for record in records] == ["four"]
    assert captured.findings.tampered == 1


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b"[" * 100_000, b'{"at_ms":1,"question":"q","context":[]}'])
def test_what_is_sealed_and_is_no_record_is_counted_as_tampered(tmp_path: Path, text: bytes) -> None:
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    writer = SegmentWriter(folder, PRIVATE_KEY.public_key(), NOON)
    writer.append([text, text_of(b"one")])
    writer.end()
    records, captured = read(folder)
    assert [record.context["said"] for record in records] == ["one"]
    assert captured.findings.tampered == 1


def test_a_folder_without_a_segment_is_said_to_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingCaptured):
        Captured(tmp_path, PRIVATE_KEY)


# ---- segments and retention --------------------------------------------------------------------------


def test_a_new_day_begins_a_new_segment_and_ends_the_old_one(tmp_path: Path) -> None:
    clock = Clock()
    spool = Spool(settings(tmp_path / "kept"), clock)
    stored(spool, text_of(b"one"), text_of(b"two"))
    clock.now += timedelta(hours=12)
    stored(spool, text_of(b"three"))
    spool.close()
    records, captured = read(tmp_path / "kept")
    assert [record.context["said"] for record in records] == ["one", "two", "three"]
    assert len(segments(tmp_path / "kept")) == 2
    assert captured.findings.unended == 0


def test_segments_older_than_the_days_to_keep_are_deleted_whole(tmp_path: Path) -> None:
    clock = Clock()
    spool = Spool(settings(tmp_path / "kept", keep_days=2), clock)
    for said in (b"one", b"two", b"three", b"four"):
        stored(spool, text_of(said))
        clock.now += timedelta(days=1, seconds=1)
    spool.close()
    records, _ = read(tmp_path / "kept")
    assert [record.context["said"] for record in records] == ["three", "four"]


def test_the_oldest_segments_go_when_all_have_more_bytes_than_permitted(tmp_path: Path) -> None:
    clock = Clock()
    spool = Spool(settings(tmp_path / "kept", segment_bytes=4096, max_bytes=16384), clock)
    for number in range(20):
        stored(spool, text_of(b"%d" % number + b"x" * 2000))
        clock.now += timedelta(seconds=1)
        assert sum(path.stat().st_size for path in segments(tmp_path / "kept")) <= 16384
    spool.close()
    records, captured = read(tmp_path / "kept")
    numbers = [int(record.context["said"].rstrip("x")) for record in records]
    assert numbers == list(range(20))[-len(numbers) :]
    assert len(numbers) >= 3
    assert captured.findings.tampered == 0


def test_a_segment_that_another_worker_still_writes_is_never_deleted(tmp_path: Path) -> None:
    clock = Clock()
    others, own = (Spool(settings(tmp_path / "kept", keep_days=1), clock) for _ in range(2))
    stored(others, text_of(b"theirs"))
    clock.now += timedelta(days=3)
    stored(own, text_of(b"ours"))
    assert len(segments(tmp_path / "kept")) == 2
    others.close()
    own.open()
    own.close()
    records, _ = read(tmp_path / "kept")
    assert [record.context["said"] for record in records] == ["ours"]


# ---- a disk that fails -------------------------------------------------------------------------------


def full_disk(monkeypatch: pytest.MonkeyPatch, room_bytes: int) -> list[int]:
    """Let ``os.write`` to regular files fail once ``room`` is used up; the caller may make room."""
    room, write = [room_bytes], os.write

    def limited(descriptor: int, content: Any) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, content[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr("hookbus_interceptors.capture.segment.os.write", limited)
    return room


def test_a_full_disk_denies_says_so_once_and_leaves_no_torn_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = TestClient(capture(tmp_path / "kept"))
    assert client.input("one").permits
    room = full_disk(monkeypatch, 100)
    denied = [client.input(SECRET) for _ in range(3)]
    assert [answer.reason for answer in denied] == ["capture:not-stored"] * 3
    assert not any(answer.error or answer.escalates for answer in denied)
    room[0] = 1_000_000
    assert client.input("two").permits
    records, captured = read(tmp_path / "kept")
    assert [record.context["input"]["content"] for record in records] == ["one", "two"]
    assert captured.findings.torn == 0
    assert captured.findings.tampered == 0
    # Nothing is left of the attempts.
    assert len(segments(tmp_path / "kept")) == 2
    said = [record.getMessage() for record in caplog.records if record.name == "hookbus.capture"]
    assert said == [
        "NOT CAPTURED: a context was not stored (ENOSPC)",
        "contexts are captured again; 3 were not",
    ]
    assert SECRET not in caplog.text


def test_a_full_disk_lets_pass_with_a_warning_where_the_configuration_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch, 0)
    answer = TestClient(capture(tmp_path / "kept", on_failure="allow")).input("hello")
    assert answer.permits
    assert [warning.reason for warning in answer.warnings] == ["capture:not-stored"]
    assert segments(tmp_path / "kept") == []


@pytest.mark.parametrize("on_failure", ["deny", "allow"])
def test_a_disk_that_hangs_holds_no_question_longer_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_failure: str
) -> None:
    healed = threading.Event()
    sync = os.fsync

    def hanging(descriptor: int) -> None:
        healed.wait(60)
        sync(descriptor)

    monkeypatch.setattr("hookbus_interceptors.capture.segment.os.fsync", hanging)
    made = capture(tmp_path / "kept", on_failure=on_failure, wait_s=0.05)
    try:
        answer = TestClient(made).input("hello")
        assert answer.error is None
        assert answer.permits is (on_failure == "allow")
        assert (answer.reason, *(w.reason for w in answer.warnings)).count("capture:not-stored") == 1
    finally:
        healed.set()
    made._spool.close()


def test_more_than_may_wait_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookbus_interceptors.capture.spool.MAX_WAITING_BYTES", 100)
    spool = Spool(settings(tmp_path / "kept"))
    with pytest.raises(CaptureFailed, match="backlog"):
        spool.store(b"x" * 101)
    stored(spool, text_of(b"one"), text_of(b"two"), text_of(b"three"))
    spool.close()
    assert len(read(tmp_path / "kept")[0]) == 3


def test_records_that_come_together_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs, sync = list[int](), os.fsync
    first_came, all_came = threading.Event(), threading.Event()

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        first_came.set()
        all_came.wait(30)
        sync(descriptor)

    monkeypatch.setattr("hookbus_interceptors.capture.segment.os.fsync", counted)
    spool = Spool(settings(tmp_path / "kept"))
    futures: list[Future[None]] = [spool.store(text_of(b"first"))]
    assert first_came.wait(30)
    futures += [spool.store(text_of(b"%d" % number)) for number in range(50)]
    all_came.set()
    for future in futures:
        future.result(timeout=30)
    # The header, its folder, the first record, and all the others.
    assert len(syncs) == 4
    spool.close()
    assert len(read(tmp_path / "kept")[0]) == 51


# ---- in a worker -------------------------------------------------------------------------------------


async def test_a_worker_ends_its_segment_when_it_drains_and_holds_no_lock(
    tmp_path: Path, shared_server: EmbeddedServer
) -> None:
    async with hookbus.connect(shared_server.url, tenant=f"t{uuid4().hex}") as bus:
        async with Worker(bus, capture(tmp_path / "kept"), name="capture"):
            asked = asking.context({"text": SECRET})
            verdict = await bus.interceptor("capture").intercept(asked)
            assert verdict == {"decision": "allow"}
    records, captured = read(tmp_path / "kept")
    assert [record.context for record in records] == [asked]
    assert captured.findings.unended == 0
    with segments(tmp_path / "kept")[0].open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_a_worker_that_is_killed_has_kept_all_that_it_answered(
    tmp_path: Path, shared_server: EmbeddedServer
) -> None:
    (tmp_path / "capture.pub").write_text(PUBLIC_PEM)
    (tmp_path / "capture.toml").write_text(f'folder = "{tmp_path}/kept"\npublic_key = "capture.pub"\n')
    told = ["--interceptor-config", str(tmp_path / "capture.toml")]
    tenant, target = f"t{uuid4().hex}", "hookbus_interceptors.capture:Capture"
    with WorkerProcess(target, "capture", *told, url=shared_server.url, tenant=tenant) as worker:
        async with hookbus.connect(shared_server.url, tenant=tenant) as bus:
            for number in range(5):
                verdict = await bus.interceptor("capture").intercept(asking.context({"n": number}))
                assert verdict == {"decision": "allow"}
            worker.kill()
    records, captured = read(tmp_path / "kept")
    assert [record.context["target"]["n"] for record in records] == [0, 1, 2, 3, 4]
    assert (captured.findings.unended, captured.findings.tampered) == (1, 0)


def test_a_reload_goes_on_in_the_new_folder_and_ends_the_segment_in_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "capture.pub").write_text(PUBLIC_PEM)
    file = tmp_path / "capture.toml"
    file.write_text(f'folder = "{tmp_path}/before"\npublic_key = "capture.pub"\n')
    made = Capture.from_config(file)
    client = TestClient(made)
    assert client.input("one").permits
    file.write_text(f'folder = "{tmp_path}/after"\npublic_key = "capture.pub"\n')
    made.reload()
    assert client.input("two").permits
    before, captured = read(tmp_path / "before")
    assert [record.context["input"]["content"] for record in before] == ["one"]
    assert captured.findings.unended == 0
    after, _ = read(tmp_path / "after")
    assert [record.context["input"]["content"] for record in after] == ["two"]
