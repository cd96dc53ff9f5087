"""Keys: who captures holds a public one and cannot read back; who replays holds the private one.

Each segment has a key of its own, sealed to the public key by HPKE (RFC 9180); with it each record is sealed by
ChaCha20-Poly1305, bound to its segment and its number. Both are the library's implementations.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, Self

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from hookbus import HookbusError
from hookbus_interceptors.capture.errors import KeyInvalid

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_INFO: Final = b"hookbus capture 1 "

#: What a sealed line says: a context, or that the segment ends here.
Kind = Literal["record", "end"]


class SealBroken(HookbusError):
    """What was sealed has been changed, moved or replaced, or was sealed to another key."""

    def __init__(self) -> None:
        super().__init__("a seal does not check")


class SegmentKey:
    """Seals and opens the lines of one segment."""

    def __init__(self, secret: bytes, segment: str) -> None:
        self._cipher = ChaCha20Poly1305(secret)
        self._segment = segment

    @classmethod
    def new(cls, public_key: X25519PublicKey, segment: str) -> tuple[Self, bytes]:
        """Return a new key for *segment*, and the same sealed to *public_key*."""
        secret = ChaCha20Poly1305.generate_key()
        return cls(secret, segment), _SUITE.encrypt(secret, public_key, info=_INFO + segment.encode())

    @classmethod
    def opened(cls, private_key: X25519PrivateKey, segment: str, sealed: bytes) -> Self:
        """Return the key of *segment* that was *sealed* to *private_key*; raise :class:`SealBroken`."""
        try:
            return cls(_SUITE.decrypt(sealed, private_key, info=_INFO + segment.encode()), segment)
        except (InvalidTag, ValueError):
            raise SealBroken from None

    def seal(self, number: int, kind: Kind, text: bytes) -> bytes:
        """Return *text* sealed as the *number*-th line. Each number is used once."""
        return self._cipher.encrypt(number.to_bytes(12, "big"), text, self._bound(number, kind))

    def open(self, number: int, kind: Kind, sealed: bytes) -> bytes:
        """Return what was sealed as the *number*-th line; raise :class:`SealBroken`."""
        try:
            return self._cipher.decrypt(number.to_bytes(12, "big"), sealed, self._bound(number, kind))
        except (InvalidTag, ValueError):
            raise SealBroken from None

    def _bound(self, number: int, kind: Kind) -> bytes:
        return f"{kind} {number} {self._segment}".encode()


def new_pair(passphrase: str | None = None) -> tuple[bytes, str]:
    """Return a new private key in PEM, encrypted where there is a *passphrase*, and its public key in PEM."""
    key = X25519PrivateKey.generate()
    closed: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, closed)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private, public.decode("ascii")


def read_public(text: str) -> X25519PublicKey:
    """Return the public key in *text*. Raises :class:`KeyInvalid`."""
    try:
        key = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise KeyInvalid("public") from None
    if not isinstance(key, X25519PublicKey):
        raise KeyInvalid("public")
    return key


def read_private(pem: bytes, passphrase: str | None = None) -> X25519PrivateKey:
    """Return the private key in *pem*. Raises :class:`KeyInvalid`, also for a wrong passphrase."""
    try:
        key = serialization.load_pem_private_key(pem, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyInvalid("private") from None
    if not isinstance(key, X25519PrivateKey):
        raise KeyInvalid("private")
    return key


def needs_passphrase(pem: bytes) -> bool:
    """Whether the private key in *pem* is encrypted."""
    return b"ENCRYPTED PRIVATE KEY" in pem


def fingerprint(public_key: X25519PublicKey) -> str:
    """Return what tells *public_key* from others, in 16 hexadecimal digits."""
    return hashlib.sha256(public_key.public_bytes_raw()).hexdigest()[:16]
