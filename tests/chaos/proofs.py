"""What only an honest interceptor and the oracle can write: the proof that a verdict was really given.

No part of the contract: to the code under test a proof is a label or a reason like any other. It names the
verdict, who gave it and the one emission it was given for, under a key that neither agents nor bent answers have.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, NamedTuple

_FORGED = "0" * 32


class Proof(NamedTuple):
    """What a proof says: which worker of which interceptor decided what."""

    decision: str
    interceptor: str
    worker: str


class Notary:
    """Writes proofs and reads them, with one key for one soak."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def proof(self, said: Proof, context: dict[str, Any]) -> str:
        """Return the text that proves *said* of the emission that *context* belongs to."""
        return f"proof:{':'.join(said)}:{self._mark(said, context['session']['id'], context['sequence'])}"

    def read(self, text: str, session: str, sequence: int) -> Proof | None:
        """Return what *text* proves of that emission; None for anything but a true proof of that very one."""
        head, *said, mark = text.split(":")
        if head != "proof" or len(said) != len(Proof._fields):
            return None
        proof = Proof(*said)
        return proof if hmac.compare_digest(mark, self._mark(proof, session, sequence)) else None

    def _mark(self, said: Proof, session: str, sequence: int) -> str:
        covered = "\0".join((*said, session, str(sequence))).encode()
        return hmac.new(self._key, covered, hashlib.sha256).hexdigest()[:32]


def forged(decision: str, interceptor: str, worker: str) -> str:
    """Return what looks like a proof and is none."""
    return f"proof:{decision}:{interceptor}:{worker}:{_FORGED}"
