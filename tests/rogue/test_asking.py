"""A rogue agent, and whoever would be one: asking

What the server lets pass because the subject is the rogue's own, the worker checks against that subject and the
signature. (Contract, C1.9, C2.11 and C5.6.)
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent_hooks import AgentContextBuilder

from hookbus.authority.roles import Role
from hookbus.signing import Signer
from hookbus_client import BusEmitter
from tests.authority.deployment import Deployment
from tests.authority.wire import Wire
from tests.bus.keys import seed
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import Forged, asking, said, serving, signer_of

pytestmark = pytest.mark.anyio

#: Where an agent that writes its questions by hand hears the answers of :meth:`Forged.of`.
OWN_ANSWERS = "hb.v1.default.ans.*.travel.c0ffee.*"


async def error_to(rogue: Wire, question: Forged) -> bytes:
    """Ask *question* and return the header line of the type name that a worker refused it with."""
    rogue.publish(question.subject, question.body, question.headers, question.reply)
    answer = await rogue.next()
    assert answer.body == b""
    (line,) = (line for line in answer.headers.split(b"\r\n") if line.startswith(b"Nats-Service-Error:"))
    assert b"Nats-Service-Error-Code: 400" in answer.headers
    return line.removeprefix(b"Nats-Service-Error: ")


@tried("agent", "asks in another agent's name", Stop.PERMISSION, shows="refused; its emission `refused`")
async def test_an_agent_does_not_ask_in_another_agents_name(deployed: Deployment) -> None:
    builder = AgentContextBuilder(agent_id="payroll", framework="tests", session_id="s")
    async with serving(deployed) as policy, asking(deployed) as rogue:
        emitter = BusEmitter(timeout=20.0).register(rogue.bus.interceptor("policy"))
        record = await emitter.emit_unchecked(builder.input(content="book"))
        assert record.verdict.message == "refused: the server does not permit this agent to ask 'policy'"
        assert policy.policy.asked == 0


@pytest.mark.parametrize(
    ("context", "refused"),
    [
        pytest.param(
            said("payroll"),
            b"WrongAgent",
            marks=tried(
                "agent", "asks on its own subject with another `agent.id`", Stop.ORIGIN, shows="`rejected`"
            ),
        ),
        pytest.param(
            {**said(), "agent": {"framework": "tests"}},
            b"WrongAgent",
            marks=tried("agent", "asks on its own subject without `agent.id`", Stop.ORIGIN, shows="`rejected`"),
        ),
        pytest.param(
            said(tenant={"id": "acme"}),
            b"WrongTenant",
            marks=tried(
                "agent", "asks on its own subject with another `tenant.id`", Stop.ORIGIN, shows="`rejected`"
            ),
        ),
        pytest.param(
            said(tenant="acme"),
            b"WrongTenant",
            marks=tried("agent", "asks with a `tenant` that is no object", Stop.ORIGIN, shows="`rejected`"),
        ),
        pytest.param(
            said(interception_point="output"),
            b"WrongPoint",
            marks=tried("agent", "asks at one point about a context of another", Stop.ORIGIN, shows="`rejected`"),
        ),
    ],
)
async def test_a_context_says_what_its_subject_says(
    deployed: Deployment, context: dict[str, Any], refused: bytes
) -> None:
    signer = signer_of(deployed, Role.AGENT, "travel")
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN_ANSWERS)
        assert await error_to(rogue, Forged.of(signer, context=context)) == refused
        assert policy.policy.asked == 0


@tried(
    "agent", "names its own agent first and another one after it, in one context", Stop.ORIGIN, shows="`rejected`"
)
async def test_of_two_agents_in_one_context_neither_is_posed_as(deployed: Deployment) -> None:
    signer = signer_of(deployed, Role.AGENT, "travel")
    body = json.dumps(said("payroll")).encode()
    twice = body.replace(b"{", b'{"agent":{"id":"travel"},', 1)
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN_ANSWERS)
        assert await error_to(rogue, Forged.of(signer, body=twice)) == b"WrongAgent"
        assert policy.policy.asked == 0


@pytest.mark.parametrize(
    ("whose", "refused"),
    [
        pytest.param(
            None, b"Unsigned", marks=tried("agent", "asks without a signature", Stop.SIGNATURE, shows="`rejected`")
        ),
        pytest.param(
            "a stranger's",
            b"SignatureInvalid",
            marks=tried(
                "agent", "asks with a signature by a key of its own making", Stop.SIGNATURE, shows="`rejected`"
            ),
        ),
        pytest.param(
            (Role.AGENT, "payroll", "default"),
            b"SignatureInvalid",
            marks=tried(
                "agent", "asks with a signature by another agent's key", Stop.SIGNATURE, shows="`rejected`"
            ),
        ),
        pytest.param(
            (Role.WORKER, "policy", "default"),
            b"SignatureInvalid",
            marks=tried(
                "agent", "asks with a signature by the worker's own key", Stop.SIGNATURE, shows="`rejected`"
            ),
        ),
        pytest.param(
            (Role.AGENT, "travel", "acme"),
            b"SignatureInvalid",
            marks=tried(
                "agent", "asks with the key of the same name in another tenant", Stop.SIGNATURE, shows="`rejected`"
            ),
        ),
    ],
)
async def test_a_question_counts_with_a_key_of_its_own_agent_only(
    deployed: Deployment, whose: Any, refused: bytes
) -> None:
    signer = signer_of(deployed, *whose) if isinstance(whose, tuple) else Signer(seed()) if whose else None
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN_ANSWERS)
        assert await error_to(rogue, Forged.of(signer)) == refused
        assert policy.policy.asked == 0


@pytest.mark.parametrize("version", ["0", "2", "1.0"])
@tried("agent", "asks under another version of the contract", Stop.HEADERS, shows="`rejected`")
async def test_no_other_version_of_the_contract_is_spoken(deployed: Deployment, version: str) -> None:
    signer = signer_of(deployed, Role.AGENT, "travel")
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN_ANSWERS)
        assert await error_to(rogue, Forged.of(signer, contract=version)) == b"ContractVersion"
        assert policy.policy.asked == 0


@pytest.mark.parametrize("bad", ["x" * 129, "a b", "é"])
@tried("agent", "gives its question an id that is none", Stop.HEADERS, shows="`rejected`")
async def test_an_id_that_is_none_is_refused(deployed: Deployment, bad: str) -> None:
    signer = signer_of(deployed, Role.AGENT, "travel")
    async with serving(deployed) as policy, deployed.wire(Role.AGENT, "travel") as rogue:
        rogue.subscribe(OWN_ANSWERS)
        assert await error_to(rogue, Forged.of(signer, id=bad)) == b"HeadersMalformed"
        assert policy.policy.asked == 0


async def test_an_honest_agent_is_answered_by_all_of_these_workers(deployed: Deployment) -> None:
    async with serving(deployed), asking(deployed) as travel, asking(deployed, "payroll") as payroll:
        for agent in (travel, payroll):
            assert await agent.settled(agent.ask()) == "allow"
