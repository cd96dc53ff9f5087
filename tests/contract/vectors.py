"""The vectors of the contract as types: what a vector may say, and how the files are read.

``bus/hookbus/vectors/vectors.schema.json`` is made from these types; a test holds the two together.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Any, Literal

import msgspec

FOLDER = resources.files("hookbus").joinpath("vectors")

#: Bytes: UTF-8 text as it stands, or ``hex:`` and hexadecimal digits.
Octets = Annotated[
    str, msgspec.Meta(description="Bytes: the UTF-8 of this text, or `hex:` and hexadecimal digits.")
]
#: JSON text inside a JSON string, so that no reader of the vector can change it.
JsonText = Annotated[str, msgspec.Meta(description="JSON text, kept as a string so that no reader can change it.")]
Pointer = Annotated[str, msgspec.Meta(description="A JSON Pointer (RFC 6901).", pattern="^(/.*)?$")]
Reason = Annotated[str, msgspec.Meta(pattern="^host_error:[a-z_]+$")]
FailureClass = Literal[
    "silent",
    "forged",
    "expired",
    "absent",
    "bus_down",
    "refused",
    "open",
    "busy",
    "raised",
    "rejected",
    "malformed",
    "unsendable",
]
Cause = Literal["unasked", "headers", "id", "interceptor", "signature"]
#: The test keys, whose Ed25519 seeds stand in the README beside the vectors.
KeyName = Literal["agent", "worker", "next_worker", "stranger"]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Part of a vector."""


class Vector(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, tag_field="kind"
):
    """One case: it shows that each of ``clauses`` holds."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")]
    clauses: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    says: Annotated[str, msgspec.Meta(description="One sentence: what must stay true.")]


class TokenOf(Vector, frozen=True, tag="token"):
    """An identifier and the token that stands for it."""

    identifier: str
    token: str


class SubjectOf(Vector, frozen=True, tag="subject"):
    """Fields and the subject made of them."""

    form: Literal["question", "directed", "questions", "answer", "answers"]
    fields: dict[str, str | int]
    subject: str


class SubjectRead(Vector, frozen=True, tag="subject_read"):
    """A subject and the fields of a question's subject in it; null where it is not one."""

    subject: str
    fields: dict[str, str] | None


class HeadersOf(Vector, frozen=True, tag="question_headers"):
    """The exact header bytes of one question."""

    question_id: str
    budget_ms: int
    now_unix_ms: int
    headers: Octets
    traceparent: str | None = None
    tracestate: str | None = None


class HeadersRead(Vector, frozen=True, tag="headers_read"):
    """Header bytes and what they say; ``values`` is null where they must be refused."""

    headers: Octets
    values: dict[str, str] | None
    status: str | None = None


class TraceOf(Vector, frozen=True, tag="trace"):
    """The ``trace`` block of a context and the trace headers of its questions."""

    trace: dict[str, Any]
    traceparent: str | None
    tracestate: str | None


class Put(Part, frozen=True):
    """A change to a base context: at ``at``, put JSON, or a value that JSON cannot write, or remove."""

    at: Pointer
    json: JsonText | None = None
    trap: (
        Literal[
            "nan",
            "infinity",
            "minus_infinity",
            "lone_surrogate",
            "lone_surrogate_key",
            "number_key",
            "date",
            "bytes",
            "cycle",
        ]
        | None
    ) = None
    #: So many arrays, one inside the other.
    levels: int | None = None
    #: An integer of so many digits.
    digits: int | None = None
    #: A string of so many bytes.
    string_bytes: int | None = None
    remove: bool = False


class Held(Part, frozen=True):
    """What a body holds at ``at``: exactly this JSON, or so many levels, digits or bytes as in :class:`Put`."""

    at: Pointer
    json: JsonText | None = None
    levels: int | None = None
    digits: int | None = None
    string_bytes: int | None = None


class ContextOut(Vector, frozen=True, tag="context"):
    """A base context, changed, and what is sent: a body with ``holds`` at ``at``, or nothing and a deny.

    The body is equal in every other member to the changed context. ``refused`` is the reserved reason.
    """

    context: str
    put: tuple[Put, ...]
    identity_provider: Literal["jcs-sha256"] | None = "jcs-sha256"
    holds: tuple[Held, ...] = ()
    refused: Reason | None = None


class Asked(Vector, frozen=True, tag="asked"):
    """What is seen on the wire when an agent asks: subjects and headers are regular expressions."""

    agent: str
    interceptor: str
    point: str
    timeout_ms: int
    subject: str
    reply: str
    headers: dict[str, str]
    emission_budget_ms: int | None = None
    #: Whether the agent has the key ``agent``: then the signature of every question must verify.
    signed: bool = False


class Evaluated(Vector, frozen=True, tag="evaluated"):
    """An emission in ``evaluate_only``: interceptors in order with their answers, and those that are asked."""

    profile: Literal["sequential/first_deny", "sequential/run_all", "parallel/unanimous", "parallel/strictest"]
    answers: dict[str, Octets]
    asked: tuple[str, ...]


class GivenAnswer(Part, frozen=True):
    """One message to the question's reply subject (or to ``to``) with these exact header and body bytes."""

    body: Octets
    headers: Octets = ""
    #: The reply subject of the first attempt or of the second, or one that nobody asked with.
    to: Literal["question", "second", "nobody"] = "question"
    #: Whose signature is added to the headers, and what has been changed after it was made.
    signed_by: KeyName | None = None
    changed_after_signing: Literal["body", "policy", "key", "question"] | None = None


class Answers(Vector, frozen=True, tag="answers"):
    """One question, the messages that come for it in order, and its outcome after them.

    The question has the id ``0123456789abcdef0123456789abcdef`` and the interceptor ``policy``; whoever cannot
    give a question that id puts the real one in its place in the headers. ``verdict`` is what is accepted as
    JSON text, ``failure`` and ``reason`` what the question is denied with.
    """

    answers: tuple[GivenAnswer, ...]
    #: 2 where the question has been repeated before the answers come.
    attempts: Literal[1, 2] = 1
    #: ``Hb-Worker`` of an answer to an earlier question; the second attempt goes to ``directed_to``.
    #: Whose signatures the agent accepts; null where it demands none.
    keys: tuple[KeyName, ...] | None = None
    answered_before_by: str | None = None
    directed_to: str | None = None
    verdict: JsonText | None = None
    failure: FailureClass | None = None
    reason: Reason | None = None
    #: How many messages were dropped, by cause.
    dropped: dict[Cause, int] = {}


class Happens(Vector, frozen=True, tag="happens"):
    """A situation in which an agent asks ``policy``, and the failing verdict."""

    situation: Literal[
        "nobody_subscribed",
        "silence",
        "forged_answer",
        "rubbish_answer",
        "error_answer",
        "server_gone",
        "server_dies_meanwhile",
        "server_stops_meanwhile",
        "publish_not_permitted",
        "answers_not_permitted",
        "in_flight_limit",
        "question_too_large",
        "budget_spent",
        "breaker_open",
        "breaker_open_in_evaluate_only",
    ]
    failure: FailureClass
    #: How the message begins, where a class has several sentences.
    message: str | None = None


class FailureRow(Vector, frozen=True, tag="failure"):
    """One row of the failure table, its sentence as it reads for the interceptor ``policy``."""

    failure: FailureClass
    reason: Reason
    message: str
    #: The error code of an answer that becomes this failure.
    error_code: str | None = None


class ApprovalSeam(Vector, frozen=True, tag="seam"):
    """A liftable deny, what the approval resolver does, and the reserved reason; null where the deny is lifted."""

    resolver: Literal["gives_up", "hangs", "raises", "approves_after_the_budget"]
    reason: Reason | None = None


class Deadline(Vector, frozen=True, tag="deadline"):
    """When a question expires for a worker, in milliseconds from now; 0 or less is expired."""

    #: ``Hb-Budget-Ms``, or null where the question has none.
    budget_ms: int | None
    #: ``Hb-Expires-Ms`` minus the worker's own clock now, or null where the question has none.
    expires_in_ms: int | None
    #: How long ago the question may have arrived: the worker's loop had stalled for so long.
    arrived_ms_ago: int
    remaining_ms: int
    skew_allowance_ms: int = 0
    default_budget_ms: int = 5000


class ErrorAnswer(Part, frozen=True):
    """An answer without a verdict."""

    code: str
    error: str


class Worker(Vector, frozen=True, tag="worker"):
    """A question as it reaches a worker of ``policy`` in the tenant ``default``, and what the worker does.

    In ``headers``, ``<now+N>`` stands for the Unix time in milliseconds plus N.
    """

    subject: str
    body: Octets
    headers: Octets = ""
    #: Where to answer; null for none.
    reply: str | None = "hb.v1.default.ans.policy.travel.c0ffee.1"
    interceptor: Literal[
        "allows", "raises", "returns_nan", "returns_a_string", "hangs", "answers_1_mib_too_much"
    ] = "allows"
    #: Questions that the worker is answering already, and how many it takes at most.
    already_running: int = 0
    concurrency: int = 8
    #: The worker's own key; null for none.
    key: KeyName | None = None
    #: Whose signatures the worker accepts from the agent ``travel``; null where it demands none.
    agent_keys: tuple[KeyName, ...] | None = None
    #: Whose signature the question has, and what has been changed after it was made.
    signed_by: KeyName | None = None
    changed_after_signing: Literal["body", "reply", "agent", "key"] | None = None
    #: Whether the interceptor says that it knows of repeats.
    repeat_aware: bool = False
    #: Whether the interceptor is called.
    runs: bool = False
    #: The body of a verdict, or the error; neither where the worker must not answer.
    verdict: JsonText | None = None
    error: ErrorAnswer | None = None
    #: Headers of the answer, as regular expressions; null for one that must be absent.
    answer_headers: dict[str, str | None] = {}
    #: What the same question gets when it comes a second time; null where it is not sent twice.
    second_time: ErrorAnswer | Literal["the_same"] | None = None


class Service(Vector, frozen=True, tag="service"):
    """A ``$SRV`` request to a worker of ``policy`` with the id in ``<id>``, and the members of its answer."""

    subject: str
    reply: str
    #: Members by JSON Pointer; null where there must be no answer.
    members: dict[Pointer, Any] | None


class Signature(Vector, frozen=True, tag="signature"):
    """What a signature covers, and the one that the Ed25519 seed makes of it."""

    signs: Literal["question", "answer"]
    #: Every text that is covered; ``question_digest`` is in hexadecimal.
    fields: dict[str, str]
    body: Octets
    seed: Octets
    covered: Octets
    key: str
    signature: str


class Verification(Vector, frozen=True, tag="verification"):
    """A public key, a signature as it stands in the header, what it is said to cover, and whether it does."""

    key: str
    signature: str
    covered: Octets
    valid: bool


class Permission(Vector, frozen=True, tag="permission"):
    """Something tried on a server with the grants of clause C1.10, and whether the server permits it."""

    role: Literal["agent", "worker"]
    does: Literal["publish", "subscribe"]
    subject: str
    permitted: bool
    queue: str | None = None


AnyVector = (
    TokenOf
    | SubjectOf
    | SubjectRead
    | HeadersOf
    | HeadersRead
    | TraceOf
    | ContextOut
    | Asked
    | Evaluated
    | Answers
    | Happens
    | FailureRow
    | ApprovalSeam
    | Deadline
    | Worker
    | Service
    | Signature
    | Verification
    | Permission
)


class VectorFile(Part, frozen=True):
    """One file of vectors; ``contexts`` are the base contexts that its vectors name."""

    vectors: tuple[AnyVector, ...]
    contexts: dict[str, dict[str, Any]] = {}


def load() -> tuple[dict[str, AnyVector], dict[str, dict[str, Any]]]:
    """Return every vector by its id, and every base context by its name. Ids and names are unique."""
    vectors: dict[str, AnyVector] = {}
    contexts: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".json") and not path.name.endswith(".schema.json"):
            file = msgspec.json.decode(path.read_bytes(), type=VectorFile)
            for vector in file.vectors:
                assert vector.id not in vectors, f"the id {vector.id} stands twice"
                vectors[vector.id] = vector
            contexts.update(file.contexts)
    return vectors, contexts


def octets(text: Octets) -> bytes:
    """Return the bytes that *text* stands for."""
    return bytes.fromhex(text.removeprefix("hex:")) if text.startswith("hex:") else text.encode("utf-8")


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a vector file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Test vectors of the hookbus wire contract, version 1",
        **msgspec.json.schema(VectorFile),
    }
