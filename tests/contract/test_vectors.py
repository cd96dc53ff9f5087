"""Every vector of the contract, run against this implementation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookbus.server import EmbeddedServer
from tests.contract import (
    run_answers,
    run_asking,
    run_bytes,
    run_failures,
    run_permissions,
    run_workers,
    signatures,
    vectors,
)

pytestmark = pytest.mark.anyio

VECTORS = vectors.load()[0]

ON_BYTES: dict[type, Callable[[Any], None]] = {
    vectors.TokenOf: run_bytes.token,
    vectors.SubjectOf: run_bytes.subject,
    vectors.SubjectRead: run_bytes.subject_read,
    vectors.HeadersRead: run_bytes.headers_read,
    vectors.TraceOf: run_bytes.trace,
    vectors.FailureRow: run_bytes.failure,
    vectors.Deadline: run_bytes.deadline,
    vectors.Signature: signatures.signature,
    vectors.Verification: signatures.verification,
}
ON_THE_WIRE: dict[type, Callable[[Any, EmbeddedServer], Awaitable[None]]] = {
    vectors.HeadersOf: run_asking.question_headers,
    vectors.ContextOut: run_asking.context,
    vectors.Asked: run_asking.asked,
    vectors.Evaluated: run_asking.evaluated,
    vectors.Answers: run_answers.answers,
    vectors.Happens: run_failures.happens,
    vectors.ApprovalSeam: run_failures.seam,
    vectors.Worker: run_workers.worker,
    vectors.Service: run_workers.service,
}


def of(kinds: dict[type, Any]) -> list[str]:
    return [name for name, vector in VECTORS.items() if type(vector) in kinds]


TRAPS = [
    name
    for name, vector in VECTORS.items()
    if isinstance(vector, vectors.Answers) and "C3.2" in vector.clauses and vector.failure == "malformed"
]


@pytest.mark.parametrize("name", of(ON_BYTES))
def test_what_a_vector_about_bytes_says_is_true(name: str) -> None:
    vector = VECTORS[name]
    ON_BYTES[type(vector)](vector)


@pytest.mark.parametrize("name", TRAPS)
def test_the_strict_parse_alone_refuses_every_trap(name: str) -> None:
    vector = VECTORS[name]
    assert isinstance(vector, vectors.Answers)
    run_answers.trap(vector)


@pytest.mark.parametrize("name", TRAPS)
async def test_every_trap_denies_under_the_standards_emitter(name: str, shared_server: EmbeddedServer) -> None:
    vector = VECTORS[name]
    assert isinstance(vector, vectors.Answers)
    await run_answers.trap_elsewhere(vector, shared_server)


@pytest.mark.parametrize("name", of(ON_THE_WIRE))
async def test_what_a_vector_about_the_wire_says_is_true(name: str, shared_server: EmbeddedServer) -> None:
    vector = VECTORS[name]
    await ON_THE_WIRE[type(vector)](vector, shared_server)


@pytest.mark.parametrize("name", of({vectors.Permission: None}))
async def test_the_server_permits_what_a_vector_says_and_nothing_else(
    name: str, granting_server: EmbeddedServer
) -> None:
    vector = VECTORS[name]
    assert isinstance(vector, vectors.Permission)
    await run_permissions.permission(vector, granting_server)
