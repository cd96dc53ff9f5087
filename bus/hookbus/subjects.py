"""The subjects of the contract, section 1: built here, taken apart here, written out nowhere else."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import Final

ROOT: Final = "hb.v1"

_TOKEN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_HASHED = "x-"


@lru_cache(maxsize=4096)
def token(identifier: str) -> str:
    """Return the one subject token that stands for *identifier*.

    An identifier that is a token already stands for itself; any other, and any that begins with ``x-``,
    becomes ``x-`` and the base32 of its SHA-256 (lower case, no padding), so no two identifiers share a
    token by accident or on purpose. (Contract, section 1.)
    """
    if _TOKEN.fullmatch(identifier) and not identifier.startswith(_HASHED):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).digest()
    return _HASHED + base64.b32encode(digest).decode("ascii").rstrip("=").lower()


def is_token(text: str) -> bool:
    """Whether *text* can stand in a subject as it is."""
    return _TOKEN.fullmatch(text) is not None


def question(tenant: str, interceptor: str, point: str, agent: str) -> str:
    """Return the subject of one question; every argument is a token."""
    return f"{ROOT}.{tenant}.ctx.{interceptor}.{point}.{agent}"


def questions(tenant: str, interceptor: str, point: str = "*") -> str:
    """Return what the workers of *interceptor* subscribe to, in the queue group of its name."""
    return f"{ROOT}.{tenant}.ctx.{interceptor}.{point}.*"


def directed(tenant: str, interceptor: str, point: str, agent: str, worker: str) -> str:
    """Return the subject of a second attempt, for one worker that is known to answer.

    A worker subscribes with ``*`` for point and agent, outside the queue group: the group's own subject has no
    other subscriber, so that nobody's absence is hidden.
    """
    return f"{ROOT}.{tenant}.ctx.{interceptor}.{point}.{agent}.{worker}"


def answer(tenant: str, interceptor: str, agent: str, connection: str, number: int) -> str:
    """Return the reply subject of one question."""
    return f"{ROOT}.{tenant}.ans.{interceptor}.{agent}.{connection}.{number}"


def answers(tenant: str, agent: str, connection: str) -> str:
    """Return what one connection of *agent* subscribes to for its answers."""
    return f"{ROOT}.{tenant}.ans.*.{agent}.{connection}.*"


def answers_of(tenant: str, interceptor: str, agent: str) -> str:
    """Return the prefix, with its last dot, that a worker may answer *agent* under."""
    return f"{ROOT}.{tenant}.ans.{interceptor}.{agent}."


def record(tenant: str, agent: str, point: str) -> str:
    """Return the subject of one record."""
    return f"{ROOT}.{tenant}.rec.{agent}.{point}"


def approval_request(tenant: str, agent: str, approval: str) -> str:
    """Return the subject of one approval request."""
    return f"{ROOT}.{tenant}.apr.req.{agent}.{approval}"


def approval_decision(tenant: str, agent: str, approval: str, approver: str) -> str:
    """Return the subject of one approver's decision."""
    return f"{ROOT}.{tenant}.apr.dec.{agent}.{approval}.{approver}"


@lru_cache(maxsize=4096)
def parse_question(subject: str) -> tuple[str, str, str, str] | None:
    """Return ``(tenant, interceptor, point, agent)`` of a question's subject, or None if it is not one."""
    parts = subject.split(".")
    if len(parts) not in (7, 8) or parts[0] != "hb" or parts[1] != "v1" or parts[3] != "ctx":
        return None
    return parts[2], parts[4], parts[5], parts[6]
