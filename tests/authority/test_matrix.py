"""Each role against every action of the contract's table and of the server's own API, on a generated server."""

from __future__ import annotations

import ssl

import pytest

from hookbus.authority.keys import new_user_key, write_private
from hookbus.authority.roles import Role, grants
from tests.authority.actions import ACTIONS, WHO, Action
from tests.authority.deployment import Deployment
from tests.authority.wire import SignInRefused, Wire

pytestmark = pytest.mark.anyio


async def permits(wire: Wire, action: Action) -> bool:
    """Try *action* and return whether the server let it pass."""
    told = len(wire.errors)
    if action.verb == "publish":
        wire.publish(action.subject, b"")
    else:
        wire.subscribe(action.subject, action.queue)
    await wire.flush()
    refusals = wire.errors[told:]
    assert all("Permissions Violation" in refusal for refusal in refusals)
    return not refusals


@pytest.mark.parametrize("role", Role)
async def test_a_role_may_do_its_own_things_and_nothing_else(deployed: Deployment, role: Role) -> None:
    async with deployed.wire(role, WHO[role]) as wire:
        found = {str(action): await permits(wire, action) for action in ACTIONS}
    assert found == {str(action): action.role is role for action in ACTIONS}


def test_every_role_is_permitted_something_in_the_matrix() -> None:
    assert {action.role for action in ACTIONS} == {*Role, None}


@pytest.mark.parametrize("role", Role)
def test_no_list_of_permissions_is_empty_which_would_permit_everything(role: Role) -> None:
    granted = grants(role, "default", "somebody")
    assert granted.publish
    assert granted.subscribe


async def test_nobody_signs_in_without_a_key(deployed: Deployment) -> None:
    with pytest.raises(SignInRefused):
        await deployed.wire_with(None).__aenter__()


async def test_nobody_signs_in_with_a_key_that_was_not_given_out(
    deployed: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seed = tmp_path_factory.mktemp("stranger") / "stranger.nk"
    write_private(seed, new_user_key()[0])
    with pytest.raises(SignInRefused):
        await deployed.wire_with(seed).__aenter__()


async def test_nobody_signs_in_without_tls(deployed: Deployment) -> None:
    seed = deployed.layout.seed("default", Role.AGENT, "travel")
    with pytest.raises(SignInRefused):
        await Wire(deployed.server.port, seed=seed, ca=None).__aenter__()


async def test_a_server_of_another_authority_is_not_believed(
    deployed: Deployment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Deployment(tmp_path_factory.mktemp("other") / "hookbus-auth")
    wire = Wire(deployed.server.port, seed=None, ca=other.layout.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        await wire.__aenter__()
