"""The server's configuration: ``server.conf``, written once, and ``accounts.conf``, generated at every change."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hookbus.authority.layout import Layout
from hookbus.authority.roles import PLANE, Crossing, Plane, crossings, grants
from hookbus.authority.roster import Entry, Roster


def server_conf(layout: Layout, *, listen: str) -> str:
    """Return the text of ``server.conf`` for a server that listens on *listen*, ``host:port``."""
    return f"""\
# Written once by `hookbus auth init`; yours to edit.
listen: {_text(listen)}
pid_file: {_text(layout.pid_file)}

tls {{
  cert_file: {_text(layout.certificate)}
  key_file: {_text(layout.certificate_key)}
}}

jetstream {{
  store_dir: {_text(layout.store)}
}}

# A client that was stopped gets questions until the server misses its answers to these.
ping_interval: "2s"
ping_max: 2

# Accounts, users and permissions. `hookbus auth` rewrites that file and has the server read it again.
include {_text(layout.accounts_config.name)}
"""


def accounts_conf(rosters: Iterable[Roster]) -> str:
    """Return the text of ``accounts.conf``: three accounts for each tenant, one user for each public key."""
    text = "# Generated from trust.toml by `hookbus auth`; what is edited here is lost.\nsystem_account: SYSTEM\n"
    text += "accounts {\n  SYSTEM {}\n"
    for roster in rosters:
        tenant, crossing = roster.tenant, crossings(roster.tenant)
        for plane in Plane:
            text += f"  {account(plane, tenant)} {{\n"
            if plane is Plane.STREAMS:
                text += f"    jetstream: enabled\n    exports: [\n{_exports(crossing, tenant)}    ]\n"
            else:
                users = "".join(_users(tenant, entry) for entry in roster if PLANE[entry.role] is plane)
                text += f"    users: [\n{users}    ]\n"
                text += f"    imports: [\n{_imports(crossing, plane, tenant)}    ]\n"
            text += "  }\n"
    return text + "}\n"


def account(plane: Plane, tenant: str) -> str:
    """Return the name of an account."""
    return f"{plane}_{tenant}"


def _users(tenant: str, entry: Entry) -> str:
    granted = grants(entry.role, tenant, entry.name)
    permissions = (
        f"publish: {{ allow: {_list(granted.publish)} }}, subscribe: {{ allow: {_list(granted.subscribe)} }}"
    )
    return f"      # {entry.role} {json.dumps(entry.name)}\n" + "".join(
        f"      {{ nkey: {key}, permissions: {{ {permissions} }} }}\n" for key in entry.keys
    )


def _exports(crossing: Iterable[Crossing], tenant: str) -> str:
    return "".join(
        f"      {{ service: {_text(c.subject)}, accounts: [{account(c.plane, tenant)}]"
        f"{', response_type: stream' if c.many else ''} }}\n"
        for c in crossing
    )


def _imports(crossing: Iterable[Crossing], plane: Plane, tenant: str) -> str:
    streams = account(Plane.STREAMS, tenant)
    return "".join(
        f"      {{ service: {{ account: {streams}, subject: {_text(c.subject)} }}, to: {_text(c.local)} }}\n"
        for c in crossing
        if c.plane is plane
    )


def _list(subjects: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, subjects))}]"


def _text(value: object) -> str:
    # The names that come here are tokens and paths; in double quotes the server takes JSON's escapes.
    return json.dumps(str(value), ensure_ascii=False)
