"""``hookbus auth``: keys, permissions and the server's configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from hookbus.authority import streams as durable_streams
from hookbus.authority.changes import Authority
from hookbus.authority.errors import NameInvalid
from hookbus.authority.roles import READS, Role

app = typer.Typer(help="Keys, permissions and the server's configuration.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--dir", help="The folder of keys and configuration.")]
Tenant = Annotated[str | None, typer.Option(help="The tenant, where there are several.")]
Names = Annotated[list[str] | None, typer.Option(metavar="NAME", help="One to begin with; repeat it.")]
TheRole = Annotated[Role, typer.Argument(help="Who somebody is to the server.")]
TheName = Annotated[str, typer.Argument(help="An agent's id, an interceptor's name, a person's name, a bucket.")]
_FOLDER = Path("hookbus-auth")


@app.command()
def init(
    folder: Folder = _FOLDER,
    tenant: Annotated[list[str] | None, typer.Option(help="A tenant; repeat it. [default: default]")] = None,
    host: Annotated[list[str] | None, typer.Option(help="Where clients find the server; repeat it.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port for clients.")] = 4222,
    agent: Names = None,
    worker: Names = None,
    approver: Names = None,
    auditor: Names = None,
    operator: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One to begin with. [default: operator]")
    ] = None,
    store: Names = None,
) -> None:
    """Write keys, certificates, permissions and the server's configuration into a new folder."""
    authority = Authority.begin(
        folder,
        tenants=tenant or ["default"],
        names={
            Role.AGENT: agent or [],
            Role.WORKER: worker or [],
            Role.APPROVER: approver or [],
            Role.AUDITOR: auditor or [],
            Role.OPERATOR: operator or ["operator"],
            Role.STORE: store or [],
        },
        hosts=host or [],
        port=port,
    )
    layout = authority.layout
    for its in layout.tenants:
        for entry in authority.roster(its):
            typer.echo(f"{entry.role} {entry.name}: {layout.settings(its, entry.role, entry.name)}")
    typer.echo(f"start the server:   nats-server --config {layout.server_config}")
    typer.echo(f"then, once:         hookbus auth streams --dir {layout.folder}")
    typer.echo("run a client with:  HOOKBUS_CONFIG=<its .toml file>")


@app.command()
def add(role: TheRole, name: TheName, tenant: Tenant = None, folder: Folder = _FOLDER) -> None:
    """Add a name: its key, its settings and its permissions. Nobody is disconnected."""
    authority = Authority(folder)
    its = _tenant(authority, tenant)
    key = authority.add(its, role, name)
    typer.echo(f"{role} {name} of tenant {its} has key {key}: {authority.layout.settings(its, role, name)}")
    _tell(authority)
    if role in READS:
        typer.echo(f"make its durables with `hookbus auth streams --dir {authority.layout.folder}`")


@app.command()
def rotate(role: TheRole, name: TheName, tenant: Tenant = None, folder: Folder = _FOLDER) -> None:
    """Give a name a new key. The old one works too until `hookbus auth revoke --old`."""
    authority = Authority(folder)
    its = _tenant(authority, tenant)
    key = authority.rotate(its, role, name)
    typer.echo(f"{role} {name} of tenant {its} has key {key}; its older keys work until `revoke --old`")
    _tell(authority)


@app.command()
def revoke(
    role: TheRole,
    name: TheName,
    old: Annotated[bool, typer.Option("--old", help="Only the keys before its newest.")] = False,
    tenant: Tenant = None,
    folder: Folder = _FOLDER,
) -> None:
    """Take a name's keys away, and disconnect whoever uses them. Nobody else is disconnected."""
    authority = Authority(folder)
    its = _tenant(authority, tenant)
    if old:
        authority.revoke_older(its, role, name)
        typer.echo(f"{role} {name} of tenant {its} has its newest key only")
    else:
        authority.revoke(its, role, name)
        typer.echo(f"{role} {name} of tenant {its} is no more")
    _tell(authority)


@app.command()
def streams(
    operator: Annotated[str | None, typer.Option(help="Which operator makes them. [default: the first]")] = None,
    replicas: Annotated[int, typer.Option(min=1, max=5, help="Servers that keep each stream.")] = 1,
    tenant: Tenant = None,
    folder: Folder = _FOLDER,
) -> None:
    """Make the streams, and the durables of approvers and auditors, on the running server. May be repeated."""
    authority = Authority(folder)
    for its in [tenant] if tenant is not None else authority.layout.tenants:
        who = operator if operator is not None else durable_streams.an_operator(authority, its)
        for what in asyncio.run(durable_streams.make(authority, its, who, replicas=replicas)):
            typer.echo(f"tenant {its}: {what}")


def _tenant(authority: Authority, given: str | None) -> str:
    tenants = authority.layout.tenants
    if given is not None:
        return given
    if len(tenants) != 1:
        raise NameInvalid(f"name one of the tenants {', '.join(tenants)} with --tenant")
    return tenants[0]


def _tell(authority: Authority) -> None:
    pid = authority.reload()
    if pid is None:
        typer.echo(
            "no server runs here with this folder; where it runs elsewhere, "
            f"give it {authority.layout.accounts_config} and have it reload"
        )
    else:
        typer.echo(f"the server, process {pid}, reads its configuration again")
