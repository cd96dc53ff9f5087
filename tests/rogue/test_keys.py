"""Keys that counted once

A key is taken back in two places: the server no longer lets it in, and ``trust.toml`` no longer names it, so that
its signatures do not count even where the server is not what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookbus.authority.roles import Role
from hookbus.signing import Signer
from tests.authority.deployment import Deployment
from tests.authority.wire import SignInRefused, Wire
from tests.rogue.matrix import Stop, tried
from tests.rogue.parties import asking, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Deployment]:
    """A deployment of the test's own, over TLS, to change keys in."""
    with Deployment(tmp_path / "hookbus-auth") as deployment:
        yield deployment


def copied(deployment: Deployment, role: Role, name: str) -> Path:
    """Return a copy of the private key of *name*, which the rogue keeps."""
    stolen = deployment.layout.folder / f"{role}-{name}.stolen"
    stolen.write_bytes(deployment.layout.seed("default", role, name).read_bytes())
    return stolen


async def sign_in(deployment: Deployment, seed: Path) -> Wire:
    """Return a connected client as soon as the server, which reads its files in its own time, takes its key."""
    while True:
        try:
            return await deployment.wire_with(seed).__aenter__()
        except SignInRefused:
            continue


async def rotated(deployment: Deployment, role: Role, name: str) -> None:
    """Give *name* a new key and take the old one back, on the running server."""
    deployment.authority.rotate("default", role, name)
    deployment.authority.reload()
    wire = await sign_in(deployment, deployment.layout.seed("default", role, name))
    await wire.__aexit__(None, None, None)
    deployment.authority.revoke_older("default", role, name)
    deployment.authority.reload()


@pytest.mark.parametrize(
    ("role", "name"), [(Role.AGENT, "travel"), (Role.WORKER, "policy"), (Role.APPROVER, "alice")]
)
@tried("whoever was revoked", "stays connected, or signs in again", Stop.SIGN_IN, shows="disconnected, refused")
async def test_a_revoked_key_is_let_in_no_more(own: Deployment, role: Role, name: str) -> None:
    stolen = copied(own, role, name)
    async with own.wire_with(stolen) as rogue:
        own.authority.revoke("default", role, name)
        own.authority.reload()
        await rogue.closed()
    with pytest.raises(SignInRefused):
        await own.wire_with(stolen).__aenter__()


@pytest.mark.parametrize(
    ("role", "name"), [(Role.AGENT, "travel"), (Role.WORKER, "policy"), (Role.OPERATOR, "olga")]
)
@tried(
    "whoever has an old key",
    "stays connected, or signs in, after it was rotated away",
    Stop.SIGN_IN,
    shows="disconnected, refused",
)
async def test_a_key_rotated_away_is_let_in_no_more(own: Deployment, role: Role, name: str) -> None:
    stolen = copied(own, role, name)
    async with own.wire_with(stolen) as rogue:
        await rotated(own, role, name)
        await rogue.closed()
    with pytest.raises(SignInRefused):
        await own.wire_with(stolen).__aenter__()


@tried(
    "whoever has an agent's old key",
    "signs questions with it, on a connection that the server lets in",
    Stop.TRUST,
    shows="`rejected`",
)
async def test_an_agents_old_key_signs_no_question(own: Deployment) -> None:
    stolen = copied(own, Role.AGENT, "travel")
    await rotated(own, Role.AGENT, "travel")
    async with serving(own) as policy, asking(own, signing_key=stolen) as rogue, asking(own) as agent:
        assert await rogue.settled(rogue.ask()) == "rejected"
        assert (policy.last_error, policy.policy.asked) == ("400:SignatureInvalid", 0)
        assert await agent.settled(agent.ask()) == "allow"


@tried(
    "whoever has a worker's old key",
    "signs answers with it, on a connection that the server lets in",
    Stop.TRUST,
    shows="dropped, `forged`",
)
async def test_a_workers_old_key_signs_no_answer(own: Deployment) -> None:
    stolen = copied(own, Role.WORKER, "policy")
    await rotated(own, Role.WORKER, "policy")
    async with serving(own, signing_key=stolen) as rogue, asking(own) as agent:
        question = agent.ask()
        await agent.dropped(signature=1)
        assert agent.give_up(question) == "forged"
        assert rogue.policy.asked == 1


@tried(
    "whoever was revoked",
    "signs answers all the same, for agents that go on running",
    Stop.TRUST,
    shows="dropped, `forged`",
)
async def test_a_revoked_worker_is_believed_no_more_by_an_agent_that_runs(
    own: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookbus.signing.LOOK_EVERY_S", 0.0)
    stolen, kept = copied(own, Role.WORKER, "policy"), own.settings(Role.WORKER, "policy").with_suffix(".kept")
    kept.write_bytes(own.settings(Role.WORKER, "policy").read_bytes())
    async with asking(own) as agent:
        async with serving(own):
            assert await agent.settled(agent.ask()) == "allow"
        own.authority.revoke("default", Role.WORKER, "policy")
        # The server is told nothing of it, as one that is not to be trusted: trust.toml alone says so.
        async with serving(own, config=kept, creds=stolen, signing_key=stolen) as rogue:
            question = agent.ask()
            await agent.dropped(signature=1)
            assert agent.give_up(question) == "forged"
            assert rogue.policy.asked == 1


async def test_the_key_that_signs_is_the_one_that_was_given_out(own: Deployment) -> None:
    for role, name in ((Role.AGENT, "travel"), (Role.WORKER, "policy")):
        signer = Signer.from_file(own.layout.seed("default", role, name))
        assert own.authority.roster("default").get(role, name).keys == (signer.key,)
