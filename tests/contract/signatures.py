"""Signatures of the tests, made without the code that they test; and the vectors about them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import nkeys
from nacl.signing import SigningKey

from hookbus import signing
from tests.contract.vectors import KeyName, Signature, Verification, octets

#: The Ed25519 seeds of the test keys: 32 times the same byte.
SEEDS: dict[KeyName, bytes] = {
    "agent": b"\x01" * 32,
    "worker": b"\x02" * 32,
    "next_worker": b"\x03" * 32,
    "stranger": b"\x04" * 32,
}


def nkey_seed(seed: bytes) -> bytes:
    """Return *seed* as the nkey seed of a user."""
    return bytes(nkeys.encode_seed(seed, nkeys.PREFIX_BYTE_USER))


def write_seed(name: KeyName, path: Path) -> Path:
    """Write the nkey seed of *name* to *path* and return it."""
    path.write_bytes(nkey_seed(SEEDS[name]))
    return path


def public(name: KeyName) -> str:
    """Return the public nkey of *name*."""
    raw = bytes([nkeys.PREFIX_BYTE_USER]) + bytes(SigningKey(SEEDS[name]).verify_key)
    return base64.b32encode(raw + nkeys.crc16(bytearray(raw)).to_bytes(2, "little")).decode().rstrip("=")


def sign(name: KeyName, covered: bytes) -> str:
    """Return the signature of *covered* by *name* as a header has it."""
    return base64.urlsafe_b64encode(SigningKey(SEEDS[name]).sign(covered).signature).decode()


def covered(tag: str, *parts: str | bytes) -> bytes:
    """Return the concatenation of clause C5.1."""
    joined = b""
    for part in (tag, "1", *parts):
        raw = part.encode() if isinstance(part, str) else part
        joined += len(raw).to_bytes(4, "big") + raw
    return joined


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def signature(vector: Signature) -> None:
    fields = dict(vector.fields)
    digest = signing.body_digest(octets(vector.body))
    if vector.signs == "question":
        made = signing.question_bytes(**fields, digest=digest)
    else:
        question_digest = bytes.fromhex(fields.pop("question_digest"))
        made = signing.answer_bytes(**fields, question_digest=question_digest, digest=digest)
    assert made == octets(vector.covered)
    signer = signing.Signer(nkey_seed(octets(vector.seed)))
    assert (signer.key, signer.sign(made)) == (vector.key, vector.signature)
    assert signing.verifies(vector.key, vector.signature, made)


def verification(vector: Verification) -> None:
    assert signing.verifies(vector.key, vector.signature, octets(vector.covered)) == vector.valid
