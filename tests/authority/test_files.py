"""What ``hookbus auth init`` writes: files and their modes, no secret anywhere else, and names that cannot be."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import hookbus
from hookbus.authority.changes import Authority
from hookbus.authority.errors import FolderInUse, NameInvalid, NotAFolder, RosterInvalid
from hookbus.authority.keys import new_user_key, write_private
from hookbus.authority.roles import Role
from hookbus.authority.roster import Roster
from hookbus.signing import Signer, read_trust
from hookbus.subjects import token
from tests.authority.command import auth, succeeded

SECRET = re.compile(rb"S[A-Z][A-Z2-7]{56}|PRIVATE KEY")
ODD = 'The "Travel" \\ Agent, Zürich'


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask under which whatever is not closed on purpose is open to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def began(folder: Path, *agents: str) -> Authority:
    return Authority.begin(folder, tenants=["default"], names={Role.AGENT: agents, Role.OPERATOR: ["olga"]})


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("careless")
def test_private_keys_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    authority = began(tmp_path / "hookbus-auth", "travel")
    authority.add("default", Role.WORKER, "policy")
    authority.rotate("default", Role.AGENT, "travel")
    found = files(authority.layout.folder)
    private = {path for path, held in found.items() if SECRET.search(held)}
    assert {path.name for path in private} == {"travel.nk", "olga.nk", "policy.nk", "ca.key", "server.key"}
    assert {mode(path) for path in private} == {0o600}
    folders = [authority.layout.folder, *(p for p in authority.layout.folder.rglob("*") if p.is_dir())]
    assert {mode(path) for path in folders} == {0o700}


def test_a_folder_that_was_there_and_empty_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "hookbus-auth"
    folder.mkdir(mode=0o755)
    began(folder)
    assert mode(folder) == 0o700


@pytest.mark.timeout(180)
def test_no_command_says_a_private_key(tmp_path: Path) -> None:
    folder = tmp_path / "hookbus-auth"
    said = []
    secrets: set[bytes] = set()
    for arguments in (
        ("init", "--agent", "travel", "--worker", "policy", "--approver", "alice"),
        ("init",),
        ("add", "agent", "payroll"),
        ("add", "agent", "payroll"),
        ("rotate", "agent", "payroll"),
        ("revoke", "--old", "agent", "payroll"),
        ("streams",),
        ("revoke", "agent", "payroll"),
        ("add", "nonsense", "payroll"),
    ):
        done = auth(*arguments, folder=folder)
        said.append(done.stdout + done.stderr)
        secrets |= {held.strip() for path, held in files(folder).items() if path.suffix in (".nk", ".key")}
    told = "".join(said).encode()
    assert len(secrets) == 8
    assert not SECRET.search(told)
    assert not any(line in told for secret in secrets for line in secret.split(b"\n") if b"-----" not in line)
    public = (
        folder.joinpath("tenants/default/trust.toml").read_bytes()
        + folder.joinpath("server/accounts.conf").read_bytes()
    )
    assert not SECRET.search(public)


def test_init_changes_nothing_where_something_is(tmp_path: Path) -> None:
    folder = tmp_path / "hookbus-auth"
    succeeded("init", "--agent", "travel", folder=folder)
    before = files(folder)
    again = auth("init", "--agent", "travel", folder=folder)
    assert again.returncode == 1
    assert again.stderr.startswith(f"hookbus: {folder} is not empty and nothing in it was changed; ")
    assert files(folder) == before
    with pytest.raises(FolderInUse):
        began(folder)
    with pytest.raises(FolderInUse):
        began(next(iter(before)))


def test_a_private_key_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "key.nk"
    write_private(path, b"first")
    with pytest.raises(FileExistsError):
        write_private(path, b"second")
    assert path.read_bytes() == b"first"


def test_a_change_wants_a_folder_that_init_wrote(tmp_path: Path) -> None:
    with pytest.raises(NotAFolder, match="make one with `hookbus auth init --dir"):
        Authority(tmp_path)
    done = auth("add", "agent", "travel", folder=tmp_path / "nowhere")
    assert done.returncode == 1
    assert "hookbus auth init" in done.stderr


def test_settings_are_read_by_a_connection_and_sign_for_agents_and_workers(tmp_path: Path) -> None:
    folder = tmp_path / "hookbus-auth"
    succeeded(
        "init", "--tenant", "acme", "--host", "bus.example.org", "--port", "4333",
        "--agent", "travel", "--worker", "policy", "--auditor", "ada", folder=folder,
    )  # fmt: skip
    layout = Authority(folder).layout
    for role, name, signs in (
        (Role.AGENT, "travel", True),
        (Role.WORKER, "policy", True),
        (Role.AUDITOR, "ada", False),
        (Role.OPERATOR, "operator", False),
    ):
        seed = layout.seed("acme", role, name)
        read = hookbus.read_settings(layout.settings("acme", role, name))
        assert read.url == "tls://bus.example.org:4333"
        assert (read.tenant, read.name) == ("acme", f"{role} {name}")
        assert (read.creds, read.tls_ca) == (seed, layout.ca)
        assert read.signing_key == (seed if signs else None)
        assert read.trust == (layout.trust("acme") if signs else None)
    assert 'listen: "0.0.0.0:4333"' in layout.server_config.read_text("utf-8")


def test_a_key_is_trusted_by_the_token_of_its_name(tmp_path: Path) -> None:
    authority = began(tmp_path / "hookbus-auth", ODD, "travel", token(ODD))
    trust = read_trust(authority.layout.trust("default"))
    for name in (ODD, "travel", token(ODD)):
        seed = authority.layout.seed("default", Role.AGENT, name)
        assert seed.name == f"{token(name)}.nk"
        assert trust.of_agent(token(name)) == {Signer.from_file(seed).key}
    # One whose name looks like another's token is not that other.
    assert len({key for keys in trust.agents.values() for key in keys}) == 3
    assert Roster.read(authority.layout.trust("default"), "default") == authority.roster("default")
    written = tomllib.loads(authority.layout.settings("default", Role.AGENT, ODD).read_text("utf-8"))
    assert written["name"] == f"agent {ODD}"


@pytest.mark.parametrize("name", ["", " travel", "travel\n", "a\tb", "a\x00b", "n" * 129, "\u202etravel"])
def test_what_cannot_be_a_name_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(NameInvalid, match="cannot be a name: use 1 to 128 printable characters"):
        began(tmp_path / "hookbus-auth", name)
    assert not (tmp_path / "hookbus-auth").exists()


@pytest.mark.parametrize("name", ["../../escape", "*", ">", "a.b", "policy queue", "${HOME}", '" } }'])
def test_a_name_that_means_something_elsewhere_is_only_a_name(tmp_path: Path, name: str) -> None:
    authority = began(tmp_path / "hookbus-auth", "travel")
    authority.add("default", Role.AGENT, name)
    assert authority.layout.seed("default", Role.AGENT, name).parent.name == "agent"
    assert f"hb.v1.default.ctx.*.*.{token(name)}" in authority.layout.accounts_config.read_text("utf-8")


@pytest.mark.parametrize("tenant", ["", "Acme", "a.b", "../x", "*"])
def test_what_cannot_be_a_tenant_is_refused(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(NameInvalid, match="cannot be a tenant"):
        Authority.begin(tmp_path / "hookbus-auth", tenants=[tenant], names={})
    assert not (tmp_path / "hookbus-auth").exists()


@pytest.mark.parametrize("host", ["tls://bus.example.org", "bus.example.org:4222", "a b", "", "*.example.org"])
def test_what_cannot_be_a_host_is_refused(tmp_path: Path, host: str) -> None:
    with pytest.raises(NameInvalid, match="neither a host name nor an address"):
        Authority.begin(tmp_path / "hookbus-auth", tenants=["default"], names={}, hosts=[host])
    assert not (tmp_path / "hookbus-auth").exists()


def test_the_command_names_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "hookbus-auth"
    Authority.begin(folder, tenants=["acme", "beta"], names={Role.OPERATOR: ["olga"]})
    for arguments, said in (
        (("add", "agent", "travel"), "name one of the tenants acme, beta with --tenant"),
        (("streams", "--operator", "nobody"), "tenant acme has no operator 'nobody'; it has 'olga'"),
    ):
        done = auth(*arguments, folder=folder)
        assert done.returncode == 1
        assert done.stderr.startswith("hookbus: ")
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not = toml = at all", "it is not TOML"),
        ("agents = 1", "it is not tables of names"),
        ("[agents]\ntravel = 'U1'", "it is not tables of names"),
        ("[agents]\ntravel = []", "agents.travel: a list of at least one public nkey"),
        ("[agents]\ntravel = ['SUSECRET']", "agents.travel: a list of at least one public nkey"),
        ("[strangers]\ntravel = []", "there is no table \\[strangers\\]"),
        ("[agents]\n' ' = []", "cannot be a name"),
    ],
)
def test_a_roster_that_cannot_be_read_says_where_and_never_what(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(RosterInvalid, match=said) as raised:
        Roster.read(path, "default")
    assert "SECRET" not in str(raised.value)
    path.unlink()
    with pytest.raises(RosterInvalid, match="cannot be read"):
        Roster.read(path, "default")


def test_every_key_is_new(tmp_path: Path) -> None:
    keys = [new_user_key() for _ in range(100)]
    assert len({seed for seed, _ in keys}) == len({public for _, public in keys}) == 100
