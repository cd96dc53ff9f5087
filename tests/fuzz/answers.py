"""Answers as they come to an agent: nothing but an exact verdict to the very question permits."""

from __future__ import annotations

import base64
import binascii
from random import Random
from typing import NamedTuple

from agent_hooks import Verdict

from hookbus import signing
from hookbus.failures import Failure
from hookbus.questions import Answer, Question, Questions
from hookbus.signing import Signer
from hookbus_client.asking import judged
from tests.fuzz import documents, reference
from tests.fuzz.bending import bent_headers, bent_json, bent_subject
from tests.fuzz.target import Plain, few, sometimes

INTERCEPTOR = "policy"
REPLY = f"hb.v1.default.ans.{INTERCEPTOR}.{documents.AGENT}.c0ffee."
#: Stands in a case for the id of its question, which no case knows.
ID = b"@id@"
PLAIN_PERMITS = (b'{"decision": "allow"}', b'{"decision": "allow", "reason": "r"}')


WORKER, STRANGER = documents.signer(1), documents.signer(2)


class Signed(NamedTuple):
    """How an answer is signed: by whom, for which attempt, and over what."""

    signer: Signer
    attempt: int
    worker: str
    policy: str
    body: bytes


class Arriving(NamedTuple):
    """One message to the answers' subscription."""

    attempt: int
    subject: str
    headers: bytes
    body: bytes
    signed: Signed | None
    #: Nothing about it was bent.
    untouched: bool


class Case(NamedTuple):
    attempts: int
    demands_keys: bool
    arriving: tuple[Arriving, ...]


class Answers(Plain):
    """Some messages for one question with one or two attempts, with or without demanded keys."""

    name = "answers"

    def case(self, random: Random) -> Case:
        attempts = random.choice((1, 1, 2))
        demands_keys = sometimes(random, 3)
        count = random.choice((1, 1, 2, 3))
        return Case(attempts, demands_keys, tuple(_arriving(random, attempts, demands_keys) for _ in range(count)))

    async def check(self, case: Case) -> str:
        settled: list[Question] = []
        questions = Questions("default", settled.append)
        keys = frozenset({WORKER.key}) if case.demands_keys else None
        question = Question("hb.v1.default.ctx.policy.input.bot", INTERCEPTOR, judged, None, keys)
        digests = [signing.body_digest(b"%d" % attempt) for attempt in range(case.attempts)]
        for attempt, digest in enumerate(digests):
            questions.expect(question, f"{REPLY}{attempt}", 10)
            if case.demands_keys:
                question.digests[question.replies[-1]] = digest
        permits: list[bool] = []
        for message in case.arriving:
            raw = _told(message, question, digests)
            before = question.outcome
            questions.receive(message.subject.encode(), b"", raw, message.body)
            may = _may_permit(case, message, raw, question, digests)
            permits.append(may)
            if question.outcome is not before and _is_permit(question):
                assert may, "an answer that must not count has permitted"
        if case.arriving[0].untouched and case.arriving[0].body in PLAIN_PERMITS:
            assert _is_permit(question), "an exact verdict has not permitted"
        questions.give_up(question)
        assert question.outcome is not None
        assert len(settled) == 1
        assert len(questions) == questions.bytes_in_flight == 0
        if _is_permit(question):
            assert any(permits)
            return "permitted"
        if isinstance(question.outcome, Answer):
            return "denied" if question.outcome.judgement.valid else "malformed"
        assert isinstance(question.outcome, Failure)
        return question.outcome.label


def _arriving(random: Random, attempts: int, demands_keys: bool) -> Arriving:
    attempt = random.randrange(attempts)
    exact = f"{REPLY}{attempt}"
    whole = documents.answer(random)
    signed = None
    lines = [f"Hb-Interceptor: {INTERCEPTOR}", "Hb-Worker: w1", "Hb-Policy: v7", "Hb-Elapsed-Us: 12", "X-Other: é"]
    told = few(random, lines, 4)
    told = list(dict.fromkeys(told))
    if demands_keys and not sometimes(random, 8):
        worker = "w1" if lines[1] in told else ""
        policy = "v7" if lines[2] in told else ""
        signer = STRANGER if sometimes(random, 8) else WORKER
        other = sometimes(random, 8) and attempts > 1
        signed = Signed(signer, 1 - attempt if other else attempt, worker, policy, whole)
        told += ["Hb-Signature: @signature@", f"Hb-Key: {WORKER.key if sometimes(random, 8) else signer.key}"]
    exactly_so = not told or sometimes(random, 2)
    if sometimes(random, 8):
        told.append(f"Nats-Service-Error-Code: {random.choice(('400', '408', '429', '500', '503', '', '0'))}")
    head = b"NATS/1.0\r\nHb-Id: " + ID + b"\r\n" if exactly_so and told else b"NATS/1.0\r\n"
    headers = head + "".join(f"{line}\r\n" for line in told).encode() + b"\r\n" if told else b""
    body = bent_json(random, whole) if sometimes(random, 2) else whole
    if sometimes(random, 16):
        headers, body = b"NATS/1.0 503\r\n\r\n", random.choice((b"", b"", whole))
    bent = bent_headers(random, headers) if sometimes(random, 2) else headers
    subject = bent_subject(random, exact) if sometimes(random, 10) else exact
    wrong_signer = signed is not None and (
        signed.signer is STRANGER or signed.attempt != attempt or STRANGER.key in headers.decode()
    )
    untouched = (
        (b"Code:" not in headers and b" 503" not in headers)
        and (body, bent, subject) == (whole, headers, exact)
        and not wrong_signer
        and (signed is not None or not demands_keys)
    )
    return Arriving(attempt, subject, bent, body, signed, untouched)


def _covered(signed: Signed, digests: list[bytes]) -> bytes:
    return signing.answer_bytes(
        tenant="default",
        question_digest=digests[signed.attempt],
        worker=signed.worker,
        policy=signed.policy,
        digest=signing.body_digest(signed.body),
    )


def _told(message: Arriving, question: Question, digests: list[bytes]) -> bytes:
    raw = message.headers.replace(ID, question.id.encode())
    if message.signed is not None and b"@signature@" in raw:
        signature = message.signed.signer.sign(_covered(message.signed, digests))
        raw = raw.replace(b"@signature@", signature.encode())
    return raw


def _may_permit(case: Case, message: Arriving, raw: bytes, question: Question, digests: list[bytes]) -> bool:
    """Whether *message* has all that an answer which permits must have, by the plain reading of the contract."""
    if message.subject not in [f"{REPLY}{attempt}" for attempt in range(case.attempts)]:
        return False
    try:
        status, values = reference.read_headers(raw)
    except reference.Refused:
        return False
    if status is not None or "Nats-Service-Error-Code" in values:
        return False
    if values.get("Hb-Id", question.id) != question.id:
        return False
    if values.get("Hb-Interceptor", INTERCEPTOR) != INTERCEPTOR:
        return False
    if case.demands_keys and not _is_signed(message, values, digests):
        return False
    return reference.may_permit(message.body)


def _is_signed(message: Arriving, values: dict[str, str], digests: list[bytes]) -> bool:
    signed = message.signed
    if signed is None or signed.signer is not WORKER or values.get("Hb-Key") != WORKER.key:
        return False
    told = (values.get("Hb-Worker", ""), values.get("Hb-Policy", ""), message.body)
    if told != (signed.worker, signed.policy, signed.body) or message.subject != f"{REPLY}{signed.attempt}":
        return False
    try:
        given = base64.urlsafe_b64decode(values.get("Hb-Signature", ""))
    except (binascii.Error, ValueError):
        return False
    return given == base64.urlsafe_b64decode(signed.signer.sign(_covered(signed, digests)))


def _is_permit(question: Question) -> bool:
    outcome = question.outcome
    if not isinstance(outcome, Answer) or not outcome.judgement.valid:
        return False
    verdict = outcome.judgement.verdict
    assert isinstance(verdict, Verdict)
    return bool(verdict.decision.permits)


class Headers(Plain):
    """Header blocks: read exactly as the plain reading of the contract reads them, or refused as it refuses."""

    name = "headers"

    def case(self, random: Random) -> bytes:
        lines = (
            "Hb-Id: 1",
            "Hb-Contract: 1",
            "Hb-Budget-Ms: 500",
            "Hb-Policy:  v 7 ",
            "a:b:c",
            "X: é",
            "Hb-Worker:",
        )
        first = random.choice(("NATS/1.0", "NATS/1.0", "NATS/1.0 503", "NATS/1.0 503 No Responders"))
        raw = "\r\n".join([first, *few(random, lines, 5), "", ""]).encode()
        return bent_headers(random, raw)

    async def check(self, case: bytes) -> str:
        from hookbus import HeadersMalformed, envelope

        try:
            expected: object = reference.read_headers(case)
        except reference.Refused:
            expected = None
        try:
            found: object = tuple(envelope.parse(case))
        except HeadersMalformed:
            found = None
        assert found == expected
        return "refused" if found is None else "read"
