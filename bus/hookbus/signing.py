"""Signatures of questions and answers (contract, section 5): Ed25519 by libsodium, keys in NATS nkey form.

What is signed is a fixed, length-prefixed concatenation, so no two different messages have the same bytes. A
question's signature covers where its answer goes; an answer's covers the question it is for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import time
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
import nkeys
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

from hookbus.envelope import VERSION
from hookbus.errors import SettingsInvalid
from hookbus.subjects import token

logger = logging.getLogger("hookbus.signing")

#: How often a trust file is looked at.
LOOK_EVERY_S: Final = 1.0

_PUBLIC_KEY_BYTES: Final = 35
_SIGNATURE_BYTES: Final = 64


class Signer:
    """A private key that signs; the key itself is never shown."""

    def __init__(self, seed: bytes) -> None:
        self._pair = nkeys.from_seed(bytearray(seed))
        #: The public key, in nkey form.
        self.key: str = self._pair.public_key.decode("ascii")

    def __repr__(self) -> str:
        return f"<signer {self.key}>"

    @classmethod
    def from_file(cls, path: Path) -> Signer:
        """Return the signer whose nkey seed stands in the file *path*; raise :class:`SettingsInvalid`."""
        try:
            signer = cls(path.read_text("ascii").strip().encode("ascii"))
        except OSError as error:
            raise SettingsInvalid(f"the signing key {path} cannot be read ({type(error).__name__})") from None
        except (ValueError, nkeys.NkeysError):
            raise SettingsInvalid(f"the file {path} holds no nkey seed; `hookbus auth init` writes one") from None
        if not is_public_key(signer.key):
            # What the key of an account or a server signs, nobody accepts.
            raise SettingsInvalid(f"the nkey seed in {path} is not that of a user (SU…)")
        return signer

    def sign(self, data: bytes) -> str:
        """Return the signature of *data* as it stands in ``Hb-Signature``."""
        return base64.urlsafe_b64encode(self._pair.sign(data)).decode("ascii")


def verifies(key: str, signature: str, data: bytes) -> bool:
    """Whether *signature* is that of the public nkey *key* over *data*; False for anything malformed."""
    verify_key = _verify_key(key)
    if verify_key is None:
        return False
    try:
        raw = base64.b64decode(signature, altchars=b"-_", validate=True)
        if len(raw) != _SIGNATURE_BYTES:
            return False
        verify_key.verify(data, raw)
    except (BadSignatureError, binascii.Error, ValueError):
        return False
    return True


def is_public_key(key: str) -> bool:
    """Whether *key* is a public nkey, its checksum included."""
    return _verify_key(key) is not None


@lru_cache(maxsize=1024)
def _verify_key(key: str) -> VerifyKey | None:
    try:
        raw = base64.b32decode(key + "=" * (-len(key) % 8))
    except (binascii.Error, ValueError):
        return None
    if len(raw) != _PUBLIC_KEY_BYTES or raw[0] != nkeys.PREFIX_BYTE_USER:
        return None
    if nkeys.crc16(bytearray(raw[:-2])) != int.from_bytes(raw[-2:], "little"):
        return None
    return VerifyKey(raw[1:-2])


def body_digest(body: bytes) -> bytes:
    """Return the SHA-256 of the exact *body*."""
    return hashlib.sha256(body).digest()


def question_bytes(
    *,
    tenant: str,
    interceptor: str,
    point: str,
    agent: str,
    question_id: str,
    expires_ms: str,
    reply: str,
    digest: bytes,
) -> bytes:
    """Return what the signature of a question covers; ``digest`` is :func:`body_digest` of its body."""
    texts = (tenant, interceptor, point, agent, question_id, expires_ms, reply)
    return _concatenation("question", (*(text.encode() for text in texts), digest))


def answer_bytes(*, tenant: str, question_digest: bytes, worker: str, policy: str, digest: bytes) -> bytes:
    """Return what the signature of an answer covers.

    ``question_digest`` is the SHA-256 of :func:`question_bytes`; an absent ``worker`` or ``policy`` is empty.
    """
    return _concatenation("answer", (tenant.encode(), question_digest, worker.encode(), policy.encode(), digest))


def _concatenation(tag: str, parts: Iterable[bytes]) -> bytes:
    joined = bytearray()
    for part in (tag.encode(), VERSION.encode(), *parts):
        joined += len(part).to_bytes(4, "big") + part
    return bytes(joined)


class Trust(msgspec.Struct, frozen=True):
    """Whose signatures count: the public nkeys of each agent and of each interceptor's workers, by token.

    A name that is not listed has no keys, so nothing of it is accepted.
    """

    agents: Mapping[str, frozenset[str]]
    workers: Mapping[str, frozenset[str]]

    def of_agent(self, agent: str) -> frozenset[str]:
        """Return the keys of the agent with the token *agent*."""
        return self.agents.get(agent, frozenset())

    def of_interceptor(self, interceptor: str) -> frozenset[str]:
        """Return the keys of the workers of the interceptor with the token *interceptor*."""
        return self.workers.get(interceptor, frozenset())


class TrustFile:
    """The trust that a file states, as it stands there now: keys come and go without a restart.

    Making one raises :class:`SettingsInvalid` for a file that is not a trust file. When it later becomes one, the
    trust of before goes on, and the log says so at every look.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _state(path)
        self._looked_s = time.monotonic()
        self._trust = read_trust(path)

    def now(self) -> Trust:
        """Return the trust of now; looks at the file at most once per second."""
        looked_s = time.monotonic()
        if looked_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = looked_s
            state = _state(self._path)
            if state != self._seen:
                try:
                    self._trust = read_trust(self._path)
                except SettingsInvalid as error:
                    logger.error("the keys of before stay in force: %s", error)
                else:
                    self._seen = state
                    logger.info("the trust file was read again")
        return self._trust


def _state(path: Path) -> tuple[int, int, int]:
    """Return what changes when *path* is written anew."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_size, found.st_ino


class _WrittenTrust(msgspec.Struct, frozen=True):
    agents: dict[str, list[str]] = {}
    workers: dict[str, list[str]] = {}


def read_trust(path: Path) -> Trust:
    """Return the trust that the TOML file *path* states; raise :class:`SettingsInvalid`.

    It has a table ``[agents]`` and a table ``[workers]``; each names a list of public nkeys, several while one
    is being rotated. Other tables are for others.
    """
    try:
        written = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _WrittenTrust)
    except OSError as error:
        raise SettingsInvalid(f"the trust file {path} cannot be read ({type(error).__name__})") from None
    except (ValueError, RecursionError, msgspec.ValidationError):
        # Not only TOMLDecodeError: more digits or levels than Python reads come out as they are.
        raise SettingsInvalid(
            f"the trust file {path} is not TOML with [agents] and [workers] tables of public keys"
        ) from None
    for keys in (*written.agents.values(), *written.workers.values()):
        if not all(map(is_public_key, keys)):
            raise SettingsInvalid(f"the trust file {path} names something that is not a public nkey (U…)")
    return Trust(
        {token(name): frozenset(keys) for name, keys in written.agents.items()},
        {token(name): frozenset(keys) for name, keys in written.workers.items()},
    )
