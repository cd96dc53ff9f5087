"""Vectors about bytes and words, run against the functions that make and read them."""

from __future__ import annotations

from typing import Any

from hookbus import Failure, HeadersMalformed, envelope, subjects
from hookbus.context import _trace
from hookbus.failures import BY_ERROR_CODE
from hookbus_interceptors import intake
from tests.contract.vectors import (
    Deadline,
    FailureRow,
    HeadersRead,
    SubjectOf,
    SubjectRead,
    TokenOf,
    TraceOf,
    octets,
)


def token(vector: TokenOf) -> None:
    assert subjects.token(vector.identifier) == vector.token
    assert subjects.is_token(vector.token)
    assert subjects.is_token(vector.identifier) or vector.token != vector.identifier


def subject(vector: SubjectOf) -> None:
    build: dict[str, Any] = {
        "question": subjects.question,
        "directed": subjects.directed,
        "questions": subjects.questions,
        "answer": subjects.answer,
        "answers": subjects.answers,
    }
    assert build[vector.form](**vector.fields) == vector.subject
    if vector.form == "answer":
        prefix = subjects.answers_of(*(str(vector.fields[name]) for name in ("tenant", "interceptor", "agent")))
        assert vector.subject.startswith(prefix)


def subject_read(vector: SubjectRead) -> None:
    fields = tuple(vector.fields.values()) if vector.fields is not None else None
    assert subjects.parse_question(vector.subject) == fields


def headers_read(vector: HeadersRead) -> None:
    try:
        headers = envelope.parse(octets(vector.headers))
    except HeadersMalformed:
        assert vector.values is None
        return
    assert headers == (vector.status, vector.values)


def trace(vector: TraceOf) -> None:
    assert _trace(vector.trace) == (vector.traceparent, vector.tracestate)


def failure(vector: FailureRow) -> None:
    (failure,) = (failure for failure in Failure if failure.sentence("policy") == vector.message)
    assert (failure.label, failure.reason) == (vector.failure, vector.reason)
    codes = [code for code, means in BY_ERROR_CODE.items() if means is failure]
    assert codes == ([vector.error_code] if vector.error_code is not None else [])


def deadline(vector: Deadline) -> None:
    now_s, now_unix_ms = 1000.0, 1_790_000_000_000
    expires = None if vector.expires_in_ms is None else now_unix_ms + vector.expires_in_ms
    expiry_s = intake.deadline(
        intake.Terms(None, vector.budget_ms, expires),
        arrived_s=now_s - vector.arrived_ms_ago / 1000,
        now_s=now_s,
        now_unix_ms=now_unix_ms,
        default_ms=vector.default_budget_ms,
        skew_ms=vector.skew_allowance_ms,
    )
    assert round((expiry_s - now_s) * 1000) == vector.remaining_ms
