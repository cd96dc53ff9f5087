"""Signatures: what they cover, what verifies, and that an answer without the right one settles nothing."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hookbus
from hookbus import Connection, Failure, Message, SettingsInvalid, envelope, signing
from hookbus.questions import Answer, Question
from hookbus.server import EmbeddedServer
from hookbus.signing import Signer, Trust, read_trust, verifies
from hookbus.subjects import token
from tests.bus.keys import seed, write_seed, write_trust
from tests.bus.test_connection import context, judged
from tests.client.scripted import until

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0
ALLOW = b'{"decision":"allow"}'


# ---- the primitive ---------------------------------------------------------------------------------


@given(data=st.binary(max_size=200), other=st.binary(max_size=200))
def test_a_signature_verifies_over_its_own_data_and_no_other(data: bytes, other: bytes) -> None:
    signer = Signer(seed())
    signature = signer.sign(data)
    assert verifies(signer.key, signature, data)
    assert verifies(signer.key, signature, other) == (data == other)
    assert not verifies(Signer(seed()).key, signature, data)


@given(key=st.text(max_size=60), signature=st.text(max_size=100))
def test_rubbish_verifies_nothing_and_raises_nothing(key: str, signature: str) -> None:
    signer = Signer(seed())
    assert not verifies(key, signature, b"data")
    assert not verifies(signer.key, signature, b"data")
    assert not verifies(key, signer.sign(b"data"), b"data")


_parts = st.fixed_dictionaries(
    {
        name: st.text(max_size=8)
        for name in ("tenant", "interceptor", "point", "agent", "question_id", "expires_ms", "reply")
    }
)


@given(one=_parts, two=_parts)
def test_two_questions_have_the_same_bytes_only_if_they_are_the_same(
    one: dict[str, str], two: dict[str, str]
) -> None:
    digest = hashlib.sha256(b"").digest()
    same = signing.question_bytes(**one, digest=digest) == signing.question_bytes(**two, digest=digest)
    assert same == (one == two)


def test_a_question_never_has_the_bytes_of_an_answer() -> None:
    digest = hashlib.sha256(b"").digest()
    question = signing.question_bytes(
        tenant="", interceptor="", point="", agent="", question_id="", expires_ms="", reply="", digest=digest
    )
    answer = signing.answer_bytes(tenant="", question_digest=digest, worker="", policy="", digest=digest)
    assert question[:12] != answer[:12]


def test_a_signer_shows_its_public_key_and_never_its_seed(tmp_path: Path) -> None:
    fresh = seed()
    (tmp_path / "key").write_bytes(fresh + b"\n")
    signer = Signer.from_file(tmp_path / "key")
    assert signer.key == Signer(fresh).key
    assert fresh.decode() not in repr(signer)
    (tmp_path / "key").write_text("no seed at all")
    with pytest.raises(SettingsInvalid, match="holds no nkey seed") as raised:
        Signer.from_file(tmp_path / "key")
    assert "no seed at all" not in str(raised.value)


def test_a_trust_file_names_keys_by_role_and_name(tmp_path: Path) -> None:
    one, two = Signer(seed()).key, Signer(seed()).key
    path = write_trust(tmp_path / "trust.toml", agents={"Bot 1": [one, two]}, workers={"policy": [two]})
    trust = read_trust(path)
    assert trust.of_agent(token("Bot 1")) == {one, two}
    assert trust.of_interceptor("policy") == {two}
    assert trust.of_interceptor("nobody") == frozenset()


@pytest.mark.parametrize("text", ["{", "agents = 5", "[agents]\nbot = ['not a key']", "[workers]\np = 'U'"])
def test_a_trust_file_that_is_not_one_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "trust.toml").write_text(text)
    with pytest.raises(SettingsInvalid, match="trust file"):
        read_trust(tmp_path / "trust.toml")


# ---- over the bus ----------------------------------------------------------------------------------


class Signing:
    """A policy's worker that signs what a test decides."""

    def __init__(self, connection: Connection, signer: Signer) -> None:
        self.connection = connection
        self.signer = signer
        self.asked: list[Message] = []

    async def serve(self) -> None:
        pattern = f"hb.v1.{self.connection.settings.tenant}.ctx.policy.*.*"
        self.connection.serve([pattern], "policy", self.asked.append, on_refused=print)
        await self.connection.flush(timeout_s=5)

    def question_digest(self, message: Message, **changes: str) -> bytes:
        """Return the digest of what the question *message* is signed over."""
        values = envelope.parse(message.headers).values
        _, _, tenant, _, interceptor, point, agent = message.subject.split(".")
        parts = {
            "tenant": tenant,
            "interceptor": interceptor,
            "point": point,
            "agent": agent,
            "question_id": values[envelope.ID],
            "expires_ms": values[envelope.EXPIRES_MS],
            "reply": message.reply,
        }
        covered = signing.question_bytes(**{**parts, **changes}, digest=signing.body_digest(message.body))
        return signing.body_digest(covered)

    def answer(self, message: Message, body: bytes, *, digest: bytes | None = None, **headers: str) -> None:
        """Answer *message*, signed over its question, or over *digest*; *headers* are put over the right ones."""
        told = {envelope.WORKER: "w-1", envelope.POLICY: "v1"}
        covered = signing.answer_bytes(
            tenant=self.connection.settings.tenant,
            question_digest=digest or self.question_digest(message),
            worker="w-1",
            policy="v1",
            digest=signing.body_digest(body),
        )
        told |= {envelope.SIGNATURE: self.signer.sign(covered), envelope.KEY: self.signer.key}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.publish(message.reply, body, envelope.encode(told))


async def asked(bus: Connection, worker: Signing, keys: list[str]) -> tuple[Question, Message]:
    question = bus.asker.ask(context(), [(bus.interceptor("policy", keys=keys), PATIENCE_S)], judged)[0]
    await until(lambda: bool(worker.asked))
    return question, worker.asked.pop()


async def test_a_signed_answer_is_accepted_and_an_old_key_beside_the_new_one(
    shared_server: EmbeddedServer,
) -> None:
    old, new = Signer(seed()), Signer(seed())
    async with hookbus.connect(shared_server.url, tenant="signed") as bus:
        async with hookbus.connect(shared_server.url, tenant="signed") as far:
            for signer in (old, new):
                worker = Signing(far, signer)
                await worker.serve()
                question, message = await asked(bus, worker, [old.key, new.key])
                worker.answer(message, ALLOW)
                await until(lambda: question.outcome is not None)  # noqa: B023  # awaited in this iteration
                assert isinstance(question.outcome, Answer)
                await far._servings[-1].drain(timeout_s=5)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda w, m: w.connection.publish(m.reply, ALLOW), id="no signature"),
        pytest.param(lambda w, m: Signing(w.connection, Signer(seed())).answer(m, ALLOW), id="a key of its own"),
        pytest.param(
            lambda w, m: Signing(w.connection, Signer(seed())).answer(m, ALLOW, Hb_Key=w.signer.key),
            id="another's key under its own signature",
        ),
        pytest.param(
            lambda w, m: w.answer(m, ALLOW, digest=w.question_digest(m, question_id="another")),
            id="an answer to another question",
        ),
        pytest.param(
            lambda w, m: w.answer(m, ALLOW, digest=w.question_digest(m, agent="another")),
            id="an answer to another agent",
        ),
        pytest.param(
            lambda w, m: w.answer(m, ALLOW, digest=w.question_digest(m, reply="another")),
            id="an answer for another reply subject",
        ),
        pytest.param(lambda w, m: w.answer(m, ALLOW, Hb_Policy="v2"), id="a policy changed in flight"),
        pytest.param(lambda w, m: w.answer(m, ALLOW, Hb_Worker="w-2"), id="a worker changed in flight"),
        pytest.param(lambda w, m: w.answer(m, ALLOW, Hb_Signature="AAAA"), id="a signature cut short"),
    ],
)
async def test_an_answer_whose_signature_does_not_check_settles_nothing(
    shared_server: EmbeddedServer, forge: Any
) -> None:
    signer = Signer(seed())
    async with hookbus.connect(shared_server.url, tenant="unsigned") as bus:
        async with hookbus.connect(shared_server.url, tenant="unsigned") as far:
            worker = Signing(far, signer)
            await worker.serve()
            question, message = await asked(bus, worker, [signer.key])
            forge(worker, message)
            await until(lambda: bus.dropped_answers == {"signature": 1})
            assert question.outcome is None
            worker.answer(message, b'{"decision":"deny"}')
            await until(lambda: question.outcome is not None)
            assert isinstance(question.outcome, Answer)
            assert question.outcome.judgement.verdict == b'{"decision":"deny"}'


async def test_a_body_changed_in_flight_does_not_check(shared_server: EmbeddedServer) -> None:
    signer = Signer(seed())
    async with hookbus.connect(shared_server.url, tenant="changed") as bus:
        async with hookbus.connect(shared_server.url, tenant="changed") as far:
            worker = Signing(far, signer)
            await worker.serve()
            question, message = await asked(bus, worker, [signer.key])
            told: list[bytes] = []
            publish = far.publish
            far.publish = lambda reply, body, headers=b"": publish(reply, ALLOW, headers)  # type: ignore[method-assign, assignment, misc]  # in the middle
            worker.answer(message, b'{"decision":"deny"}')
            await until(lambda: bus.dropped_answers == {"signature": 1})
            bus.asker.give_up(question)
            assert question.outcome is Failure.FORGED
            assert told == []


async def test_nobody_subscribed_is_still_known_at_once(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url, tenant="absent") as bus:
        settled = asyncio.Event()
        interceptor = bus.interceptor("policy", keys=[Signer(seed()).key])
        question = bus.asker.ask(context(), [(interceptor, PATIENCE_S)], judged, settled.set)[0]
        await settled.wait()
        assert question.outcome is Failure.ABSENT


async def test_a_question_is_signed_by_the_key_of_the_settings(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    signer = write_seed(tmp_path / "agent.nk")
    async with (
        hookbus.connect(shared_server.url, tenant="signing", signing_key=tmp_path / "agent.nk") as bus,
        hookbus.connect(shared_server.url, tenant="signing") as far,
    ):
        worker = Signing(far, signer)
        await worker.serve()
        _, message = await asked(bus, worker, [signer.key])
        values = envelope.parse(message.headers).values
        _, _, tenant, _, interceptor, point, agent = message.subject.split(".")
        covered = signing.question_bytes(
            tenant=tenant,
            interceptor=interceptor,
            point=point,
            agent=agent,
            question_id=values[envelope.ID],
            expires_ms=values[envelope.EXPIRES_MS],
            reply=message.reply,
            digest=signing.body_digest(message.body),
        )
        assert values[envelope.KEY] == signer.key
        assert verifies(signer.key, values[envelope.SIGNATURE], covered)


async def test_a_trust_file_gives_every_interceptor_its_keys_and_an_unlisted_one_none(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    signer = Signer(seed())
    trust = write_trust(tmp_path / "trust.toml", agents={}, workers={"policy": [signer.key]})
    async with hookbus.connect(shared_server.url, trust=trust) as bus:
        assert bus.interceptor("policy").keys == {signer.key}
        assert bus.interceptor("unlisted").keys == frozenset()


def test_keys_that_are_none_are_refused(shared_server: EmbeddedServer) -> None:
    with pytest.raises(ValueError, match="public nkeys"):
        hookbus.connect(shared_server.url).interceptor("policy", keys=["policy"])


def test_trust_is_by_token() -> None:
    trust = Trust({"bot": frozenset({"K"})}, {})
    assert trust.of_agent("bot") == {"K"}


async def test_a_trust_file_is_read_again_when_it_changes_and_kept_when_it_breaks(
    shared_server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(signing, "LOOK_EVERY_S", 0.0)
    old, new = Signer(seed()).key, Signer(seed()).key
    path = write_trust(tmp_path / "trust.toml", agents={}, workers={"policy": [old]})
    async with hookbus.connect(shared_server.url, trust=path) as bus:
        interceptor = bus.interceptor("policy")
        assert interceptor.keys == {old}
        write_trust(path, agents={}, workers={"policy": [old, new]})
        assert interceptor.keys == {old, new}
        path.write_text("{ no longer")
        assert interceptor.keys == {old, new}
        assert "the keys of before stay in force" in caplog.text
        write_trust(path, agents={}, workers={})
        assert interceptor.keys == frozenset()
