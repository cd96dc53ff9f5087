"""What a worker requires of a question before it starts: each thing refused has a code (contract, section 2)."""

from __future__ import annotations

import heapq
import re
from typing import Any, Final

import msgspec

from hookbus import HeadersMalformed, Undecodable, codec, envelope, signing
from hookbus.subjects import token

MALFORMED: Final = "400"
EXPIRED: Final = "408"
BUSY: Final = "429"
RAISED: Final = "500"

_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


class Refused(Exception):
    """A question that gets an error answer: ``code``, and a type name for ``Nats-Service-Error``."""

    def __init__(self, code: str, type_name: str) -> None:
        self.code = code
        self.type_name = type_name
        super().__init__(f"{code} {type_name}")


class Terms(msgspec.Struct, frozen=True):
    """What the headers of a question say of it."""

    #: ``Hb-Id``, or None in a question without one.
    id: str | None
    #: How long the agent still waits, counted from the question's arrival; None where it does not say.
    budget_ms: int | None
    #: The same instant as Unix milliseconds, by the agent's clock; None where it does not say.
    expires_ms: int | None
    #: Who signed it and how; empty in a question that is not signed.
    key: str = ""
    signature: str = ""
    #: ``Hb-Expires-Ms`` as it is written, which is what a signature covers.
    expires: str = ""


def read_terms(raw: bytes) -> Terms:
    """Return what the header bytes say; no headers say nothing. Raises :class:`Refused` with ``400``."""
    try:
        values = envelope.parse(raw).values
    except HeadersMalformed:
        raise Refused(MALFORMED, "HeadersMalformed") from None
    if values.get(envelope.CONTRACT, envelope.VERSION) != envelope.VERSION:
        raise Refused(MALFORMED, "ContractVersion")
    number = values.get(envelope.ID)
    if number is not None and not _ID.fullmatch(number):
        raise Refused(MALFORMED, "HeadersMalformed")
    return Terms(
        number,
        _ms(values, envelope.BUDGET_MS),
        _ms(values, envelope.EXPIRES_MS),
        values.get(envelope.KEY, ""),
        values.get(envelope.SIGNATURE, ""),
        values.get(envelope.EXPIRES_MS, ""),
    )


def _ms(values: dict[str, str], name: str) -> int | None:
    if (text := values.get(name)) is None:
        return None
    if (number := envelope.whole_ms(text)) is None:
        raise Refused(MALFORMED, "HeadersMalformed")
    return number


def deadline(
    terms: Terms, *, arrived_s: float, now_s: float, now_unix_ms: int, default_ms: int, skew_ms: int
) -> float:
    """Return when the question expires, by whichever clock is first, on the clock of ``arrived_s``.

    ``arrived_s`` and ``now_s`` are seconds of the monotonic clock, ``now_unix_ms`` is the same instant as
    ``now_s``. ``default_ms`` is the budget of a question that names none. ``skew_ms`` is how far the agent's
    clock may be behind this one; clocks further apart make questions expire early, never late.
    """
    by_budget = arrived_s + (default_ms if terms.budget_ms is None else terms.budget_ms) / 1000
    if terms.expires_ms is None:
        return by_budget
    return min(by_budget, now_s + (terms.expires_ms + skew_ms - now_unix_ms) / 1000)


def covered(terms: Terms, subject: tuple[str, str, str, str], reply: str, body: bytes) -> bytes:
    """Return what the signature of a question covers (contract, section 5).

    *subject* is what :func:`hookbus.subjects.parse_question` made of its subject.
    """
    tenant, interceptor, point, agent = subject
    return signing.question_bytes(
        tenant=tenant,
        interceptor=interceptor,
        point=point,
        agent=agent,
        question_id=terms.id or "",
        expires_ms=terms.expires,
        reply=reply,
        digest=signing.body_digest(body),
    )


def check_signature(terms: Terms, keys: frozenset[str], signed: bytes) -> None:
    """Raise :class:`Refused` with ``400`` unless one of *keys* signed *signed*, which is :func:`covered`."""
    if terms.id is None or terms.expires_ms is None:
        raise Refused(MALFORMED, "Unsigned")
    if terms.key not in keys or not signing.verifies(terms.key, terms.signature, signed):
        raise Refused(MALFORMED, "SignatureInvalid" if terms.signature else "Unsigned")


class Repeats:
    """Remembers the ids of questions until they expire, so that none is taken twice (contract, section 5).

    Each agent has room of its own for ``most`` ids: none takes another's ids, or another's room.
    """

    def __init__(self, most: int = 100_000) -> None:
        self._most = most
        #: Of each agent: the ids that are taken, and a heap of when they expire.
        self._of: dict[str, tuple[set[str], list[tuple[float, str]]]] = {}

    def check(self, agent: str, question_id: str, *, expires_s: float, now_s: float) -> None:
        """Take *question_id* of *agent*; raise :class:`Refused`: ``400`` if it was taken, ``429`` for too many."""
        taken, expiries = self._of.setdefault(agent, (set(), []))
        while expiries and expiries[0][0] <= now_s:
            taken.discard(heapq.heappop(expiries)[1])
        if question_id in taken:
            raise Refused(MALFORMED, "Repeated")
        if len(taken) >= self._most:
            raise Refused(BUSY, "Busy")
        taken.add(question_id)
        heapq.heappush(expiries, (expires_s, question_id))


def read_context(body: bytes, tenant: str, point: str, agent: str) -> dict[str, Any]:
    """Return the context in *body*, which must be of the subject's *tenant*, *point* and *agent*, all tokens.

    Raises :class:`Refused` with ``400``. (Contract, section 1: the server has checked the subject, so what the
    context says of its origin is checked against the subject.)
    """
    try:
        context = codec.decode_context(body)
    except Undecodable:
        raise Refused(MALFORMED, "Undecodable") from None
    if _token_in(context.get("agent")) != agent:
        raise Refused(MALFORMED, "WrongAgent")
    block = context.get("tenant")
    says_whose = block is not None and not (isinstance(block, dict) and "id" not in block)
    if says_whose and _token_in(block) != tenant:
        raise Refused(MALFORMED, "WrongTenant")
    if context.get("interception_point") != point:
        raise Refused(MALFORMED, "WrongPoint")
    return context


def _token_in(block: object) -> str | None:
    identifier = block.get("id") if isinstance(block, dict) else None
    return token(identifier) if isinstance(identifier, str) else None
