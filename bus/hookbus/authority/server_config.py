"""The server's configuration: ``server.conf``, written once, and ``accounts.conf``, generated at every change."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hookbus.authority.layout import Layout
from hookbus.authority.roles import PLANE, Crossing, Plane, Role, crossings, grants
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
    """Return the text of ``accounts.conf``: each tenant's accounts, one for each bucket, a user for each key."""
    text = "# Generated from trust.toml by `hookbus auth`; what is edited here is lost.\nsystem_account: SYSTEM\n"
    text += "accounts {\n  SYSTEM {}\n"
    for roster in rosters:
        tenant, buckets = roster.tenant, tuple(store.name for store in roster.of(Role.STORE))
        crossing = crossings(tenant, buckets)
        for bucket in ("", *buckets):
            text += f"  {_keeper(tenant, bucket)} {{\n"
            text += f"    jetstream: enabled\n    exports: [\n{_exports(crossing, tenant, bucket)}    ]\n  }}\n"
        # Also where there are no users yet: the imports of an account that is new to a running server work only
        # when it has read its configuration once more (2.15.1).
        for plane in Plane:
            users = "".join(_users(tenant, entry) for entry in roster if PLANE[entry.role] is plane)
            text += f"  {_account(plane, tenant)} {{\n    users: [\n{users}    ]\n"
            text += f"    imports: [\n{_imports(crossing, plane, tenant)}    ]\n  }}\n"
    return text + "}\n"


def _account(plane: Plane, tenant: str) -> str:
    return f"{plane}_{tenant}"


def _keeper(tenant: str, bucket: str) -> str:
    # Tokens have no capitals, so no two buckets share an account.
    return f"BUCKET_{tenant}_KV_{bucket}" if bucket else f"STREAMS_{tenant}"


def _users(tenant: str, entry: Entry) -> str:
    granted = grants(entry.role, tenant, entry.name)
    permissions = (
        f"publish: {{ allow: {_list(granted.publish)} }}, subscribe: {{ allow: {_list(granted.subscribe)} }}"
    )
    return f"      # {entry.role} {json.dumps(entry.name)}\n" + "".join(
        f"      {{ nkey: {key}, permissions: {{ {permissions} }} }}\n" for key in entry.keys
    )


def _exports(crossing: Iterable[Crossing], tenant: str, bucket: str) -> str:
    return "".join(
        f"      {{ service: {_text(c.subject)}, accounts: [{_account(c.plane, tenant)}]"
        f"{', response_type: stream' if c.many else ''} }}\n"
        for c in crossing
        if c.bucket == bucket
    )


def _imports(crossing: Iterable[Crossing], plane: Plane, tenant: str) -> str:
    return "".join(
        f"      {{ service: {{ account: {_keeper(tenant, c.bucket)}, subject: {_text(c.subject)} }}, "
        f"to: {_text(c.local)} }}\n"
        for c in crossing
        if c.plane is plane
    )


def _list(subjects: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, subjects))}]"


def _text(value: object) -> str:
    # The names that come here are tokens and paths; in double quotes the server takes JSON's escapes.
    return json.dumps(str(value), ensure_ascii=False)
