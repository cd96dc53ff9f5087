"""Questions as they come to a worker: each is evaluated once or gets one error answer, and the worker lives on."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from hookbus import Connection, Message, codec, envelope, signing, subjects
from hookbus.connection import Serving
from hookbus.settings import Settings
from hookbus_interceptors import Worker
from tests.fuzz import documents, reference
from tests.fuzz.bending import bent_headers, bent_json, bent_subject
from tests.fuzz.target import Plain, few, sometimes

#: Stand in a case for what no case knows: an id of its own, and an instant some seconds from now or long ago.
ID, LATER, EARLIER, SIGNATURE = b"@id@", b"@later@", b"@earlier@", b"@signature@"
AGENTS = (documents.AGENT, documents.AGENT, "Bot 1", "*", ">", "a.b", "x-a", "é", "a" * 300)
ASKER, STRANGER = documents.signer(3), documents.signer(4)
CODES = ("400", "408", "429", "500")
#: More than any question here needs.
PLENTY_MS = 10_000


class Bench(Connection):
    """A connection without a server: keeps what is published, and whoever serves is handed messages.

    With a *trust* file it takes only questions that are signed so.
    """

    def __init__(self, trust: Path | None) -> None:
        super().__init__(Settings(trust=trust))
        self.published: list[tuple[str, bytes, bytes]] = []
        self.receivers: list[Any] = []

    def serve(self, patterns: Any, queue: str, receive: Any, *, on_refused: Any) -> Serving:
        self.receivers.append(receive)
        return super().serve(patterns, queue, receive, on_refused=on_refused)

    def publish(self, subject: str, body: bytes, headers: bytes = b"", reply: str = "") -> None:
        self.published.append((subject, body, headers))


class Allow:
    """Allows, and counts."""

    def __init__(self) -> None:
        self.evaluations = 0

    async def intercept(self, context: dict[str, Any], /) -> dict[str, str]:
        assert isinstance(context, dict)
        self.evaluations += 1
        return {"decision": "allow"}


class Case(NamedTuple):
    """A question, and what it was before it was bent."""

    subject: str
    reply: str
    headers: bytes
    body: bytes
    demands_keys: bool
    whole: Message
    #: Nothing about it was bent, and it says what a worker takes.
    exact: bool


class Served(NamedTuple):
    """A worker on its bench."""

    bench: Bench
    worker: Worker
    allow: Allow


class Questions:
    """A message, and at once the same again, to a worker that demands signatures or to one that does not."""

    name = "questions"

    async def __aenter__(self) -> Self:
        self._numbers = itertools.count()
        self._served: dict[bool, Served] = {}
        self._folder = tempfile.TemporaryDirectory()
        trust = Path(self._folder.name) / "trust.toml"
        trust.write_text("[agents]\n" + "".join(f'"{name}" = ["{ASKER.key}"]\n' for name in set(AGENTS)))
        for demands_keys in (False, True):
            bench, allow = Bench(trust if demands_keys else None), Allow()
            worker = Worker(bench, allow, name="policy")
            await worker.__aenter__()
            self._served[demands_keys] = Served(bench, worker, allow)
        return self

    async def __aexit__(self, *error: object) -> None:
        for served in self._served.values():
            await served.worker.__aexit__(None, None, None)
        self._folder.cleanup()

    def case(self, random: Random) -> Case:
        agent = random.choice(AGENTS)
        token = subjects.token(agent)
        point = random.choice(("input", "pre_tool_call"))
        subject = subjects.question("default", "policy", point, token)
        reply = subjects.answer("default", "policy", token, "c0ffee", 1)
        document = documents.context(random, point, agent)
        body = json.dumps(document, ensure_ascii=sometimes(random, 2)).encode()
        demands_keys = sometimes(random, 3)
        headers = _headers(random, demands_keys)
        whole = Message(subject, reply, headers, body)
        case = Case(
            bent_subject(random, subject) if sometimes(random, 8) else subject,
            bent_subject(random, reply) if sometimes(random, 8) else reply,
            bent_headers(random, headers) if sometimes(random, 2) else headers,
            bent_json(random, body) if sometimes(random, 2) else body,
            demands_keys,
            whole,
            False,
        )
        right_tenant = document.get("tenant") in (None, {}, {"id": "default"})
        right_headers = not any(wrong in headers for wrong in (b": 0", EARLIER, STRANGER.key.encode(), b": 2"))
        signed = not demands_keys or b"Hb-Key" in headers
        untouched = case[:4] == (subject, reply, headers, body)
        return case._replace(exact=untouched and right_tenant and right_headers and signed)

    async def check(self, case: Case) -> str:
        message, signed = self._told(case)
        served = self._served[case.demands_keys]
        first = await _ask(served, message)
        second = await _ask(served, message)
        if case.demands_keys and "evaluated" in (first, second):
            assert _is_signed(message, signed, case), "a question that nobody signed so was evaluated"
            assert (first, second) == ("evaluated", "rejected 400"), "a question was evaluated twice"
        if case.exact:
            assert first == "evaluated", "an exact question was not evaluated"
            assert case.demands_keys or second == "evaluated"
        return first

    def _told(self, case: Case) -> tuple[Message, dict[str, str]]:
        """Return the message of *case*, and the values that its signature was made for."""
        now_ms = time.time_ns() // 1_000_000
        number, expires = str(next(self._numbers)), str(now_ms + 60_000)
        parts = subjects.parse_question(case.whole.subject)
        assert parts is not None
        covered = signing.question_bytes(
            tenant=parts[0],
            interceptor=parts[1],
            point=parts[2],
            agent=parts[3],
            question_id=number,
            expires_ms=expires,
            reply=case.whole.reply,
            digest=signing.body_digest(case.whole.body),
        )
        signature = ASKER.sign(covered)
        raw = case.headers
        for name, value in (
            (ID, number),
            (LATER, expires),
            (EARLIER, str(now_ms - 60_000)),
            (SIGNATURE, signature),
        ):
            raw = raw.replace(name, value.encode())
        told = {"Hb-Id": number, "Hb-Expires-Ms": expires, "Hb-Signature": signature, "Hb-Key": ASKER.key}
        return Message(case.subject, case.reply, raw, case.body), told


def _headers(random: Random, demands_keys: bool) -> bytes:
    lines = [b"Hb-Id: " + ID, b"Hb-Contract: 1", b"Hb-Budget-Ms: 60000", b"Hb-Expires-Ms: " + LATER, b"X: y"]
    told = list(dict.fromkeys(few(random, lines, 5)))
    if demands_keys and not sometimes(random, 8):
        signer = STRANGER if sometimes(random, 8) else ASKER
        told = list(dict.fromkeys([*told, lines[0], lines[3], b"Hb-Signature: " + SIGNATURE]))
        told.append(b"Hb-Key: " + signer.key.encode())
    if sometimes(random, 6):
        wrong = random.choice((b"Hb-Budget-Ms: 0", b"Hb-Expires-Ms: " + EARLIER, b"Hb-Contract: 2"))
        told = [line for line in told if line[:9] != wrong[:9]] + [wrong]
    return b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in told) + b"\r\n" if told else b""


async def _ask(served: Served, message: Message) -> str:
    """Hand *message* over and return what became of it."""
    published, evaluated = served.bench.published, served.allow.evaluations
    published.clear()
    before = _accounted(served.worker)
    served.bench.receivers[0](message)
    while (after := _accounted(served.worker))["requests"] != sum(after.values()) - after["requests"]:  # noqa: ASYNC110  # each turn may be it
        await asyncio.sleep(0)
    gained = after - before
    evaluations = served.allow.evaluations - evaluated
    if not published:
        assert evaluations == 0 or gained["abandoned"] == 1
        assert gained["abandoned"] == 0 or not _may_wait(message.headers)
        return "unanswerable" if gained["abandoned"] == 0 else "abandoned"
    ((subject, body, raw),) = published
    assert subject == message.reply
    assert subject.startswith(_answers_to(message.subject)), "an answer went elsewhere"
    values = envelope.parse(raw).values
    code = values.get(envelope.ERROR_CODE)
    if code is None:
        assert (evaluations, codec.parse_strictly(body)) == (1, {"decision": "allow"})
        assert _may_be_evaluated(message), "a question that must be refused was evaluated"
        return "evaluated"
    assert code in CODES
    assert evaluations == 0
    assert envelope.is_type_name(values[envelope.ERROR])
    return f"rejected {code}"


def _accounted(worker: Worker) -> Counter[str]:
    """Return the questions taken, and the questions by what became of them."""
    told: Counter[str] = Counter()
    for tally in worker.tallies:
        told += tally.data
        told["requests"] += tally.num_requests
    return told


def _is_signed(message: Message, signed: dict[str, str], case: Case) -> bool:
    """Whether *message* is to the letter what was signed for *case*."""
    values = reference.read_headers(message.headers)[1]
    if any(values.get(name) != value for name, value in signed.items()):
        return False
    # A directed question has one token more, which only says which worker shall take it.
    to_the_same = message.subject.split(".")[:7] == case.whole.subject.split(".")
    return to_the_same and (message.reply, message.body) == (case.whole.reply, case.whole.body)


def _answers_to(subject: str) -> str:
    parts = subject.split(".")
    return f"hb.v1.{parts[2]}.ans.policy.{parts[6]}."


def _may_wait(raw: bytes) -> bool:
    """Whether these headers give the worker plenty of time."""
    try:
        values = reference.read_headers(raw)[1]
    except reference.Refused:
        return True
    budget, expires = values.get("Hb-Budget-Ms"), values.get("Hb-Expires-Ms")
    now_ms = time.time_ns() // 1_000_000
    return not (
        (budget is not None and int(budget) < PLENTY_MS)
        or (expires is not None and int(expires) < now_ms + PLENTY_MS)
    )


def _may_be_evaluated(message: Message) -> bool:
    """Whether *message* has all that a question which is evaluated must have, by the plain reading."""
    parts = message.subject.split(".")
    if len(parts) not in (7, 8) or parts[:2] != ["hb", "v1"] or parts[3] != "ctx":
        return False
    try:
        _, values = reference.read_headers(message.headers)
    except reference.Refused:
        return False
    number = values.get("Hb-Id", "1")
    if values.get("Hb-Contract", "1") != "1" or not (
        0 < len(number) <= 128 and all("!" <= c <= "~" for c in number)
    ):
        return False
    for name in ("Hb-Budget-Ms", "Hb-Expires-Ms"):
        digits = values.get(name, "1")
        if not (0 < len(digits) <= 15 and set(digits) <= set("0123456789")):
            return False
    if values.get("Hb-Budget-Ms", "1").strip("0") == "":
        return False
    # A key may stand twice in a context (C2.14), so JSON is read here the way most readers do.
    context = json.loads(message.body)
    if not isinstance(context, dict) or not isinstance(context.get("agent"), dict):
        return False
    agent, tenant = context["agent"].get("id"), context.get("tenant")
    if not isinstance(agent, str) or subjects.token(agent) != parts[6]:
        return False
    if tenant is None or (isinstance(tenant, dict) and "id" not in tenant):
        return True
    return isinstance(tenant, dict) and tenant["id"] == parts[2]


class Subjects(Plain):
    """Subjects: taken apart exactly as they were put together, or not taken for a question."""

    name = "subjects"

    def case(self, random: Random) -> str:
        tokens = [random.choice(("default", "policy", "bot", "x-a", "a" * 64)) for _ in range(4)]
        subject = subjects.question(*tokens)
        return bent_subject(random, subject if sometimes(random, 2) else f"{subject}.worker")

    async def check(self, case: str) -> str:
        parts = subjects.parse_question(case)
        tokens = case.split(".")
        looks_right = len(tokens) in (7, 8) and (tokens[0], tokens[1], tokens[3]) == ("hb", "v1", "ctx")
        assert (parts is not None) == looks_right
        if parts is None:
            return "refused"
        assert case.startswith("hb.v1.{}.ctx.{}.{}.{}".format(*parts))
        return "read"
