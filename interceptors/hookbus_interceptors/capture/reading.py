"""Reading what was captured, with the private key: every record that checks, and a count of what does not."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hookbus.codec import Json
from hookbus_interceptors.capture.errors import NothingCaptured, RecordUnknown
from hookbus_interceptors.capture.sealing import SealBroken, SegmentKey, fingerprint
from hookbus_interceptors.capture.segment import END_MARK, FORMAT, SUFFIX, Header, segments_in


class Place(msgspec.Struct, frozen=True):
    """Where a record stands."""

    segment: str
    number: int
    #: Of its line in the file.
    offset_bytes: int

    @property
    def id(self) -> str:
        """What a person names the record by."""
        return f"{self.segment}.{self.number}"


class Record(msgspec.Struct, frozen=True):
    """One context as it was captured."""

    place: Place
    at_ms: int
    #: ``Hb-Id``, the same for a second attempt.
    question: str
    context: dict[str, Json]


class Findings(msgspec.Struct):
    """What a reading came to."""

    records: int = 0
    #: Lines whose seal does not check: changed, moved, replaced, or after one that is missing.
    tampered: int = 0
    #: Last lines that were cut off, by a crash or by somebody.
    torn: int = 0
    #: Segments without an end: still open, left by a crash, or cut.
    unended: int = 0
    #: Segments that are sealed to another key.
    other_key: int = 0


class _Text(msgspec.Struct, frozen=True):
    at_ms: int
    question: str
    context: dict[str, Any]


class Captured:
    """The records in *folder* that *private_key* opens. Raises :class:`NothingCaptured`."""

    def __init__(self, folder: Path, private_key: X25519PrivateKey) -> None:
        self._folder = folder
        self._private_key = private_key
        self._recipient = fingerprint(private_key.public_key())
        self._keys: dict[str, SegmentKey] = {}
        #: Of the last :meth:`records`.
        self.findings = Findings()
        if not segments_in(folder):
            raise NothingCaptured(folder)

    def records(self) -> Iterator[Record]:
        """Yield every record that checks, the oldest segment first, and count in ``findings``."""
        self.findings = Findings()
        for path in segments_in(self._folder):
            yield from self._records_of(path, self.findings)

    def at(self, place: Place) -> Record:
        """Return the record at *place* again. Raises :class:`RecordUnknown` where it is gone meanwhile."""
        try:
            with (self._folder / f"{place.segment}{SUFFIX}").open("rb") as file:
                file.seek(place.offset_bytes)
                return self._opened(place, file.readline())
        except (OSError, KeyError, SealBroken):
            raise RecordUnknown(place.id) from None

    def find(self, record_id: str) -> Record:
        """Return the record that a report names. Raises :class:`RecordUnknown`."""
        segment, _, number = record_id.rpartition(".")
        for path in segments_in(self._folder):
            if path.stem == segment:
                for record in self._records_of(path, Findings()):
                    if str(record.place.number) == number:
                        return record
        raise RecordUnknown(record_id)

    def _records_of(self, path: Path, findings: Findings) -> Iterator[Record]:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            # Retention took it since the folder was listed.
            return
        with file:
            first = file.readline()
            if not first.endswith(b"\n"):
                findings.torn += 1
                return
            header = _header(first)
            if header is not None and header.recipient != self._recipient:
                findings.other_key += 1
                return
            try:
                if header is None or header.format != FORMAT or header.segment != path.stem:
                    raise SealBroken
                sealed = base64.b64decode(header.key, validate=True)
                self._keys[path.stem] = SegmentKey.opened(self._private_key, path.stem, sealed)
            except (SealBroken, binascii.Error):
                findings.tampered += 1
                return
            yield from self._lines(file, path.stem, findings)

    def _lines(self, file: BinaryIO, segment: str, findings: Findings) -> Iterator[Record]:
        number, ended, offset_bytes = 0, False, file.tell()
        for line in file:
            place = Place(segment, number, offset_bytes)
            offset_bytes += len(line)
            number += 1
            try:
                if line.startswith(END_MARK):
                    self._keys[segment].open(place.number, "end", _sealed(line[len(END_MARK) :]))
                    ended = True
                    continue
                record = self._opened(place, line)
            except SealBroken:
                if line.endswith(b"\n"):
                    findings.tampered += 1
                else:
                    findings.torn += 1
                continue
            findings.records += 1
            yield record
        if not ended:
            findings.unended += 1

    def _opened(self, place: Place, line: bytes) -> Record:
        text = self._keys[place.segment].open(place.number, "record", _sealed(line))
        try:
            read = msgspec.json.decode(text, type=_Text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The public key is no secret: whoever has it can seal anything.
            raise SealBroken from None
        return Record(place, read.at_ms, read.question, read.context)


def _sealed(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise SealBroken
    try:
        return base64.b64decode(line[:-1], validate=True)
    except binascii.Error:
        raise SealBroken from None


def _header(line: bytes) -> Header | None:
    try:
        return msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
