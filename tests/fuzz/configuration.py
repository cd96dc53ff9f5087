"""What people write: declarations, settings, trust, keys. Each is taken, or refused by one known error."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

import nkeys
from agent_hooks import Decision, DeclarationError

import hookbus
from hookbus.errors import SettingsInvalid
from hookbus.nats_client import without_secrets
from hookbus.settings import Settings, read_settings
from hookbus.signing import Signer, read_trust
from hookbus_client import BusEmitter, host_registry
from tests.client.cases import POINTS
from tests.fuzz import documents
from tests.fuzz.bending import bent_json, bent_toml
from tests.fuzz.target import Plain, few, sometimes

#: Stands in values; no message may ever say it.
SECRET = "s3cr3t"
KEYS = tuple(documents.signer(number).key for number in (1, 2))


class Declaration(NamedTuple):
    text: str
    context: dict[str, Any]


class Declarations(Plain):
    """Host declarations: an emitter that denies while the bus is down, or a DeclarationError and nothing else."""

    name = "declarations"

    def __init__(self) -> None:
        self._registry = host_registry(hookbus.connect("nats://127.0.0.1:1"))

    def case(self, random: Random) -> Declaration:
        text = json.dumps(_declaration(random), ensure_ascii=sometimes(random, 2)).encode()
        if sometimes(random, 2):
            text = bent_json(random, text)
        # What is not UTF-8 reaches a host that reads a file so, as surrogates.
        return Declaration(text.decode("utf-8", "surrogateescape"), documents.context(random))

    async def check(self, case: Declaration) -> str:
        try:
            emitter = BusEmitter.from_declaration_json(case.text, self._registry)
        except DeclarationError as error:
            return f"refused: {error.error_class.value}"
        record = await emitter.emit_unchecked(case.context)
        assert record.verdict.decision is Decision.DENY, "a permit, with nobody asked"
        return "accepted"


def _declaration(random: Random) -> dict[str, Any]:
    configuration: dict[str, Any] = {}
    profile, knob, values = random.choice(
        (
            ("sequential/first_deny", "on_approval", ("stop", "resume")),
            ("sequential/run_all", "on_approval", ("stop",)),
            ("parallel/strictest", "on_transform_conflict", ("deny", "approval")),
            ("parallel/unanimous", "on_disagreement", ("deny", "approval")),
        )
    )
    options: list[tuple[str, Any]] = [
        ("mode", random.choice(("enforce", "evaluate_only"))),
        ("composition", {"profile": profile} | ({knob: random.choice(values)} if sometimes(random, 3) else {})),
        ("identity_provider", random.choice(("jcs-sha256", "jcs-sha256", None, "mine"))),
        ("approval", random.choice(({}, {}, {"resolver": None}, {"resolver": "nobody"}))),
        ("posture", {"tool_seam_host_error": random.choice(("continue", "continue", "terminate"))}),
        ("timeouts", {"interceptor_ms": _ms(random), "approval_resolver_ms": _ms(random)}),
        ("records", {"max_buffered": random.choice((1, 100, None, 0))}),
    ]
    configuration |= few(random, options, 4)
    made: dict[str, Any] = {
        "declaration": "agent-hooks-declaration/1.0",
        "configuration": configuration,
        "bindings": [_binding(random, number) for number in range(random.randrange(4))],
    }
    wrong = (0, -1, 1.5, True, "1", 10**30)
    budget = {"emission_budget_ms": random.choice(wrong if sometimes(random, 4) else (1, 2000, None))}
    extras: list[tuple[str, Any]] = [
        ("extensions", {"hookbus": random.choice((budget, budget, budget, {}, {"more": 1}, None, 5))}),
        ("extensions", {"vendor": {"x": 1}}),
        ("id", random.choice(("travel-desk", "travel-desk", "Travel", "a" * 65))),
        ("host", {"name": "fuzz", "version": "1"}),
        ("spec", random.choice(("agent-hooks/0.1", "agent-hooks/0.1", "agent-hooks/1.0"))),
    ]
    return made | dict(few(random, extras, 2))


def _binding(random: Random, number: int) -> dict[str, Any]:
    name = random.choice(("policy", "Policy 1", "*", ">", "a.b", "", "x-a", "é", "🙂", "a" * 5000, "\x00", "\n"))
    config: dict[str, Any] = {"interceptor": name if sometimes(random, 3) else "policy"}
    hedges = (1, 50, 0, -1, 1.5, True, "1", None, 2**53 - 1)
    keys = ([KEYS[0]], list(KEYS), [], ["U"], [KEYS[0].lower()], [KEYS[0][:-1] + "é"], KEYS[0], [5], None)
    config |= few(
        random, (("hedge_after_ms", random.choice(hedges)), ("keys", random.choice(keys)), ("more", 1)), 1
    )
    made: dict[str, Any] = {"id": f"b{number}", "kind": "hookbus.remote", "config": config}
    options: list[tuple[str, Any]] = [
        ("at", list(dict.fromkeys(few(random, POINTS))) or [POINTS[0]]),
        ("at", [POINTS[1], POINTS[1]] if sometimes(random, 4) else list(POINTS)),
        ("timeout_ms", _ms(random)),
        ("kind", random.choice(("hookbus.remote", "hookbus.remote", "hookbus.Remote", "ctk.x", "remote"))),
        ("config", random.choice(([], None, "policy", {})) if sometimes(random, 4) else config),
    ]
    return made | dict(few(random, options, 2))


def _ms(random: Random) -> Any:
    if sometimes(random, 8):
        return random.choice((0, -1, 3_600_001, 1.0, True, "500"))
    return random.choice((1, 500, 3_600_000, None))


class _Files:
    """A target whose cases are written to a file."""

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "file"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._folder.cleanup()


def _refused(error: SettingsInvalid, secret: str) -> str:
    assert len(secret) < len(SECRET) or secret not in str(error)
    return "refused"


class SettingsFiles(_Files):
    """Settings files: settings that a connection can be made from, or SettingsInvalid, which quotes no value."""

    name = "settings"

    def case(self, random: Random) -> bytes:
        lines = (
            *('url = "nats://127.0.0.1:4222"', f'url = "nats://user:{SECRET}@127.0.0.1:4222,tls://h:1"'),
            *('tenant = "default"', f'tenant = "T {SECRET}"', f'creds = "/none/{SECRET}"', f'trust = "{SECRET}"'),
            *('name = "fuzz"', "connect_timeout_s = 1.5", "ping_interval_s = 2", "reconnect_wait_s = 0.1"),
            *(
                "max_in_flight = 10",
                "max_in_flight_bytes = 1000",
                "breaker_opens_after = 3",
                "max_unsent_bytes = 1",
            ),
            *("breaker_trial_interval_s = 1", f'tls_ca = "{SECRET}"', f'signing_key = "{SECRET}"', "unknown = 1"),
            *('url = "nats://127.0.0.1:99999"', f'url = "nats://h:{SECRET}"', f'url = "nats://u:{SECRET}/@h"'),
            *('trust = "@here@"', 'signing_key = "@here@"', 'creds = "@here@"'),
        )
        raw = "\n".join([*dict.fromkeys(few(random, lines, 5)), ""]).encode()
        return raw if sometimes(random, 4) else bent_toml(random, raw)

    async def check(self, case: bytes) -> str:
        self.path.write_bytes(case.replace(b"@here@", str(self.path).encode()))
        try:
            found = read_settings(self.path)
            hookbus.Connection(found)
        except SettingsInvalid as error:
            return _refused(error, SECRET)
        assert type(found) is Settings
        # What a failed attempt to connect will say.
        assert not any(SECRET in without_secrets(url) for url in found.urls)
        return "accepted"


class TrustFiles(_Files):
    """Trust files: keys that are public nkeys, or SettingsInvalid."""

    name = "trust"

    def case(self, random: Random) -> bytes:
        keys = (*KEYS, *KEYS, KEYS[0].lower(), KEYS[0][:-1], "", "U" * 56, "é", documents.signer(1).key[:-1] + "=")
        lines = []
        for table in few(random, ("agents", "workers", "approvers", "agents.x"), 3):
            lines.append(f"[{table}]")
            for name in few(random, ("bot", '"Bot 1"', '"*"', '"é"', '""', "a.b", "1"), 3):
                lines.append(f"{name} = {json.dumps(few(random, keys), ensure_ascii=False)}")
        raw = "\n".join([*lines, ""]).encode()
        return raw if sometimes(random, 4) else bent_toml(random, raw)

    async def check(self, case: bytes) -> str:
        self.path.write_bytes(case)
        try:
            found = read_trust(self.path)
        except SettingsInvalid:
            return "refused"
        for name, keys in (*found.agents.items(), *found.workers.items()):
            assert hookbus.subjects.is_token(name)
            assert all(len(key) == 56 and key[0] == "U" and key.isascii() for key in keys)
        return "accepted"


class KeyFiles(_Files):
    """Files with the seed of a signing key: the key, or SettingsInvalid, which quotes nothing of the file."""

    name = "keys"

    def case(self, random: Random) -> bytes:
        kinds = (
            nkeys.PREFIX_BYTE_USER,
            nkeys.PREFIX_BYTE_USER,
            nkeys.PREFIX_BYTE_ACCOUNT,
            nkeys.PREFIX_BYTE_SERVER,
        )
        seed = bytes(nkeys.encode_seed(bytes([random.randrange(9)]) * 32, random.choice(kinds)))
        around = random.choice((b"%s", b"%s\n", b"  %s\r\n", b"%s%s", b"-----BEGIN USER NKEY SEED-----\n%s\n"))
        raw = around.replace(b"%s", seed)
        if sometimes(random, 2):
            at = random.randrange(len(raw))
            raw = raw[:at] + random.choice((b"", b"A", b"0", b"=", b"\xff", b" ", b"a")) + raw[at + 1 :]
        return raw[: random.randrange(len(raw) + 1)] if sometimes(random, 4) else raw

    async def check(self, case: bytes) -> str:
        self.path.write_bytes(case)
        try:
            signer = Signer.from_file(self.path)
        except SettingsInvalid as error:
            return _refused(error, case.decode("latin-1"))
        assert hookbus.signing.verifies(signer.key, signer.sign(b"x"), b"x")
        return "accepted"
