"""The connection on its worst day: every row of what nats-py does wrong, against a real server."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import hookbus
from hookbus import Connection, Failure, Message, codec
from hookbus.context import Outgoing, outgoing, prepare
from hookbus.errors import BusDown, CannotConnect
from hookbus.nats_client import NatsClient
from hookbus.questions import Answer, Judgement, Question
from hookbus.server import EmbeddedServer
from tests.bus.proxy import Proxy
from tests.bus.raw import RawClient
from tests.client.scripted import until

pytestmark = pytest.mark.anyio

#: Long enough that only a hang reaches it.
PATIENCE_S = 20.0


def context(content: Any = "hello") -> Outgoing:
    made: dict[str, Any] = {
        "spec": "agent-hooks/0.1",
        "interception_point": "input",
        "agent": {"id": "bot", "framework": "test"},
        "target": content,
    }
    return outgoing(prepare(made))


def judged(body: bytes) -> Judgement:
    """Take any body as it is."""
    return Judgement(body, True)


async def ask(bus: Connection, sent: Outgoing | None = None, *, timeout_s: float = PATIENCE_S) -> Question:
    """Ask the policy and return the question settled; a question open after its timeout is given up."""
    settled = asyncio.Event()
    question = bus.asker.ask(sent or context(), [(bus.interceptor("policy"), timeout_s)], judged, settled.set)[0]
    if question.outcome is None:
        asyncio.get_running_loop().call_later(timeout_s, bus.asker.give_up, question)
        await settled.wait()
    return question


@asynccontextmanager
async def allowing(bus: Connection, *, seen: list[Message] | None = None) -> AsyncIterator[list[Message]]:
    """Serve the policy on *bus*: allow everything, and keep what was asked."""
    messages: list[Message] = [] if seen is None else seen

    def receive(message: Message) -> None:
        messages.append(message)
        bus.publish(message.reply, b'{"decision":"allow"}')

    serving = bus.serve(["hb.v1.default.ctx.policy.*.*"], "policy", receive, on_refused=print)
    await bus.flush(timeout_s=5)
    yield messages
    await serving.drain(timeout_s=5)


async def test_nobody_subscribed_is_known_at_once(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url) as bus:
        assert (await ask(bus)).outcome is Failure.ABSENT
        assert bus.in_flight == 0


async def test_a_worker_is_heard(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url) as bus, hookbus.connect(shared_server.url) as far:
        async with allowing(far):
            outcome = (await ask(bus)).outcome
    assert isinstance(outcome, Answer)
    assert outcome.judgement == (b'{"decision":"allow"}', True)


async def test_a_stopped_server_costs_no_more_than_the_deadline(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus:
        server.pause()
        began = time.monotonic()
        assert (await ask(bus, timeout_s=0.2)).outcome is Failure.SILENT
        assert time.monotonic() - began < 2
        server.resume()


async def test_a_stopped_server_that_goes_on_is_used_again(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url, ping_interval_s=0.1) as bus, hookbus.connect(server.url) as far:
        async with allowing(far):
            server.pause()
            await until(lambda: not bus.is_connected)
            assert (await ask(bus)).outcome is Failure.BUS_DOWN
            server.resume()
            await until(lambda: bus.is_connected)
            assert isinstance((await ask(bus)).outcome, Answer)


async def test_a_killed_server_denies_at_once_and_a_restarted_one_is_found(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far, allowing(far):
        assert isinstance((await ask(bus)).outcome, Answer)
        server.kill()
        await until(lambda: not bus.is_connected)
        assert (await ask(bus)).outcome is Failure.BUS_DOWN
        server.restart()
        await until(lambda: bus.is_connected and far.is_connected)
        await far.flush(timeout_s=5)
        assert isinstance((await ask(bus)).outcome, Answer)
        assert bus.reconnects == far.reconnects == 1


async def test_a_question_in_flight_when_the_connection_is_lost_is_denied_then(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far:
        asked: list[Message] = []
        far.serve(["hb.v1.default.ctx.policy.*.*"], "policy", asked.append, on_refused=print)
        await far.flush(timeout_s=5)
        waiting = asyncio.create_task(ask(bus))
        await until(lambda: bool(asked))
        server.kill()
        assert (await waiting).outcome is Failure.BUS_DOWN


async def test_nothing_asked_while_down_is_delivered_later(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far, allowing(far) as seen:
        server.kill()
        await until(lambda: not bus.is_connected)
        assert (await ask(bus, context("while down"))).outcome is Failure.BUS_DOWN
        server.restart()
        await until(lambda: bus.is_connected and far.is_connected)
        await far.flush(timeout_s=5)
        assert isinstance((await ask(bus, context("after"))).outcome, Answer)
        assert [codec.decode_context(message.body)["target"] for message in seen] == ["after"]


@pytest.mark.parametrize(
    "headers",
    [
        b"NATS/1.0",
        b"NATS/1.0\r\n",
        b"NATS/1.0 \xff\xfe\xfd\r\n\r\n",
        b"NATS/1.0\r\nHb-Id: \xff\r\n\r\n",
        b"garbage\r\n",
    ],
)
async def test_a_malformed_header_on_an_answer_is_dropped_and_the_connection_hears_on(
    shared_server: EmbeddedServer, headers: bytes
) -> None:
    async with (
        hookbus.connect(shared_server.url, tenant="malformed") as bus,
        hookbus.connect(shared_server.url, tenant="malformed") as far,
        RawClient(shared_server.port) as raw,
    ):
        asked: list[Message] = []
        far.serve(["hb.v1.malformed.ctx.policy.*.*"], "policy", asked.append, on_refused=print)
        await far.flush(timeout_s=5)
        waiting = asyncio.create_task(ask(bus))
        await until(lambda: bool(asked))
        await raw.publish(asked[0].reply, headers, b'{"decision":"allow"}')
        await until(lambda: bus.dropped_answers == {"headers": 1})
        far.publish(asked[0].reply, b'{"decision":"deny"}')
        outcome = (await waiting).outcome
        assert isinstance(outcome, Answer)
        assert outcome.judgement == (b'{"decision":"deny"}', True)


async def test_an_answer_that_does_not_check_makes_silence_forged(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url, tenant="forged") as bus, RawClient(shared_server.port) as raw:
        async with hookbus.connect(shared_server.url, tenant="forged") as far:
            asked: list[Message] = []
            far.serve(["hb.v1.forged.ctx.policy.*.*"], "policy", asked.append, on_refused=print)
            await far.flush(timeout_s=5)
            question = bus.asker.ask(context(), [(bus.interceptor("policy"), PATIENCE_S)], judged)[0]
            await until(lambda: bool(asked))
            await raw.publish(asked[0].reply, b"NATS/1.0\r\nHb-Id: another\r\n\r\n", b'{"decision":"allow"}')
            await raw.publish(
                asked[0].reply, b"NATS/1.0\r\nHb-Interceptor: another\r\n\r\n", b'{"decision":"allow"}'
            )
            await until(lambda: bus.dropped_answers == {"id": 1, "interceptor": 1})
            assert question.outcome is None
            bus.asker.give_up(question)
            assert question.outcome is Failure.FORGED


async def test_a_late_answer_and_one_that_nobody_asked_for_change_nothing(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url, tenant="late") as bus:
        async with hookbus.connect(shared_server.url, tenant="late") as far:
            asked: list[Message] = []
            far.serve(["hb.v1.late.ctx.policy.*.*"], "policy", asked.append, on_refused=print)
            await far.flush(timeout_s=5)
            question = bus.asker.ask(context(), [(bus.interceptor("policy"), PATIENCE_S)], judged)[0]
            await until(lambda: bool(asked))
            bus.asker.give_up(question)
            far.publish(asked[0].reply, b'{"decision":"allow"}')
            far.publish(asked[0].reply + "9", b'{"decision":"allow"}')
            await until(lambda: bus.dropped_answers == {"unasked": 2})
            assert question.outcome is Failure.SILENT


async def test_a_handler_that_raises_loses_its_message_and_nothing_else(
    shared_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with hookbus.connect(shared_server.url) as bus:
        heard: list[bytes] = []

        def receive(message: Message) -> None:
            if message.body == b"secret":
                raise RuntimeError("a secret")
            heard.append(message.body)

        bus.serve(["some.subject"], "some", receive, on_refused=print)
        with caplog.at_level(logging.DEBUG):
            bus.publish("some.subject", b"secret")
            bus.publish("some.subject", b"next")
            await until(lambda: heard == [b"next"])
        assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "said",
    [b"-ERR 'Some Error Nobody Knows'\r\n", b"garbage\r\n", b"INFO {not json\r\n", b"-ERR 'Stale Connection'\r\n"],
)
async def test_whatever_the_server_says_the_connection_comes_back(server: EmbeddedServer, said: bytes) -> None:
    async with Proxy(server.port) as proxy:
        async with hookbus.connect(proxy.url) as bus, hookbus.connect(server.url) as far, allowing(far):
            assert isinstance((await ask(bus)).outcome, Answer)
            proxy.say(said)
            await until(lambda: bus.reconnects == 1)
            assert isinstance((await ask(bus)).outcome, Answer)


async def test_a_connection_that_is_cut_comes_back_again_and_again(server: EmbeddedServer) -> None:
    async with Proxy(server.port) as proxy:
        async with hookbus.connect(proxy.url) as bus, hookbus.connect(server.url) as far, allowing(far):
            for times in range(1, 6):
                proxy.cut()
                await until(lambda: bus.reconnects == times)  # noqa: B023  # awaited in this iteration
                assert isinstance((await ask(bus)).outcome, Answer)


async def test_answers_are_expected_on_a_new_subject_on_every_connection(server: EmbeddedServer) -> None:
    async with Proxy(server.port) as proxy:
        async with hookbus.connect(proxy.url) as bus, hookbus.connect(server.url) as far, allowing(far) as seen:
            await ask(bus)
            proxy.cut()
            await until(lambda: bus.reconnects == 1)
            await ask(bus)
        before, after = (message.reply.split(".")[6] for message in seen)
        assert before != after


async def test_an_oversize_question_is_not_sent_and_the_connection_stays(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far, allowing(far) as seen:
        big = context("x" * bus.max_message_bytes)
        assert (await ask(bus, big)).outcome is Failure.UNSENDABLE
        assert isinstance((await ask(bus)).outcome, Answer)
        assert len(seen) == 1
        assert bus.reconnects == 0


async def test_what_just_fits_is_carried(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus, hookbus.connect(server.url) as far, allowing(far):
        assert isinstance((await ask(bus, context("x" * (bus.max_context_bytes - 300)))).outcome, Answer)


async def test_an_oversize_publish_says_so(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url) as bus:
        with pytest.raises(hookbus.BodyTooLarge) as raised:
            bus.publish("some.subject", b"x" * (bus.max_message_bytes + 1))
        assert raised.value.size_bytes == raised.value.limit_bytes + 1
        assert bus.is_connected


PERMISSIONS = """
authorization {
  users = [
    { user: agent, password: a, permissions: {
        publish: ["hb.v1.default.ctx.*.*.bot"], subscribe: ["hb.v1.default.ans.*.bot.>"] } }
    { user: other, password: o, permissions: {
        publish: ["hb.v1.default.ctx.*.*.bot"], subscribe: ["hb.v1.default.ans.*.other.>"] } }
    { user: mute, password: m, permissions: { publish: ["nothing"], subscribe: [">"] } }
    { user: worker, password: w, permissions: {
        publish: ["hb.v1.default.ans.policy.>"], subscribe: ["hb.v1.default.ctx.policy.*.* policy"] } }
  ]
}
"""


@pytest.mark.parametrize("user", ["mute:m", "other:o"])
async def test_a_refused_subject_is_known_at_once(user: str) -> None:
    with EmbeddedServer(config=PERMISSIONS) as server:
        worker_url = server.url.replace("//", "//worker:w@")
        async with hookbus.connect(server.url.replace("//", f"//{user}@")) as bus:
            async with hookbus.connect(worker_url) as far, allowing(far):
                assert (await ask(bus)).outcome is Failure.REFUSED
                assert (await ask(bus)).outcome is Failure.REFUSED


async def test_a_permitted_agent_and_worker_hear_each_other() -> None:
    with EmbeddedServer(config=PERMISSIONS) as server:
        async with hookbus.connect(server.url.replace("//", "//agent:a@")) as bus:
            async with hookbus.connect(server.url.replace("//", "//worker:w@")) as far, allowing(far):
                assert isinstance((await ask(bus)).outcome, Answer)
            assert (await ask(bus)).outcome is Failure.ABSENT


async def test_a_refused_subscription_is_told_to_who_made_it() -> None:
    with EmbeddedServer(config=PERMISSIONS) as server:
        async with hookbus.connect(server.url.replace("//", "//worker:w@")) as far:
            refused: list[str] = []
            far.serve(["hb.v1.default.ctx.redactor.*.*"], "redactor", lambda _m: None, on_refused=refused.append)
            await until(lambda: refused == ["hb.v1.default.ctx.redactor.*.*"])
            assert far.is_connected


async def test_the_bound_on_questions_in_flight_refuses_by_itself(shared_server: EmbeddedServer) -> None:
    async with (
        hookbus.connect(shared_server.url, tenant="bound", max_in_flight=2) as bus,
        hookbus.connect(shared_server.url, tenant="bound") as far,
    ):
        far.serve(["hb.v1.bound.ctx.policy.*.*"], "policy", lambda _message: None, on_refused=print)
        await far.flush(timeout_s=5)
        questions = bus.asker.ask(context(), [(bus.interceptor("policy"), PATIENCE_S)] * 3, judged)
        assert [question.outcome for question in questions] == [None, None, Failure.OPEN]
        for question in questions:
            bus.asker.give_up(question)
        assert bus.in_flight == 0


async def test_what_a_stopped_server_does_not_take_is_bounded(server: EmbeddedServer) -> None:
    async with hookbus.connect(server.url, max_unsent_bytes=1_000_000, breaker_opens_after=1000) as bus:
        server.pause()
        big = context("x" * 500_000)
        outcomes = []
        for _ in range(40):
            question = bus.asker.ask(big, [(bus.interceptor("policy"), PATIENCE_S)], judged)[0]
            outcomes.append(question.outcome)
            bus.asker.give_up(question)
        assert outcomes[0] is None
        assert outcomes[-1] is Failure.BUS_DOWN
        server.resume()


async def test_asking_before_entering_and_after_leaving_denies(shared_server: EmbeddedServer) -> None:
    bus = hookbus.connect(shared_server.url)
    assert bus.asker.ask(context(), [(bus.interceptor("policy"), 1.0)], judged)[0].outcome is Failure.BUS_DOWN
    async with bus:
        assert bus.is_connected
    assert bus.asker.ask(context(), [(bus.interceptor("policy"), 1.0)], judged)[0].outcome is Failure.BUS_DOWN
    with pytest.raises(RuntimeError, match="make a new one"):
        await bus.__aenter__()


async def test_leaving_settles_what_is_in_flight(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url, tenant="leaving") as far:
        far.serve(["hb.v1.leaving.ctx.policy.*.*"], "policy", lambda _message: None, on_refused=print)
        await far.flush(timeout_s=5)
        async with hookbus.connect(shared_server.url, tenant="leaving") as bus:
            question = bus.asker.ask(context(), [(bus.interceptor("policy"), PATIENCE_S)], judged)[0]
        assert question.outcome is Failure.BUS_DOWN


async def test_no_server_is_an_error_that_says_what_to_do() -> None:
    with EmbeddedServer() as server:
        url = server.url.replace("//", "//name:password@")
    with pytest.raises(hookbus.CannotConnect, match="hookbus server") as raised:
        async with hookbus.connect(url, connect_timeout_s=0.5):
            pass
    assert "password" not in str(raised.value)


async def test_wrong_credentials_are_an_error_in_the_servers_own_words() -> None:
    with EmbeddedServer(config=PERMISSIONS) as server:
        with pytest.raises(hookbus.CannotConnect, match="Authorization Violation"):
            async with hookbus.connect(server.url, connect_timeout_s=0.5):
                pass


async def test_a_second_server_is_used_when_the_first_is_down(server: EmbeddedServer) -> None:
    with EmbeddedServer() as gone:
        url = gone.url
    async with hookbus.connect(f"{url},{server.url}") as bus:
        assert (await ask(bus)).outcome is Failure.ABSENT


async def test_credentials_may_be_a_bare_nkey_seed(tmp_path: Path) -> None:
    import nkeys

    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(seed).public_key.decode()
    path = tmp_path / "agent.nk"
    path.write_bytes(seed)
    with EmbeddedServer(config=f"authorization {{ users = [ {{ nkey: {public} }} ] }}") as server:
        async with hookbus.connect(server.url, creds=path) as bus:
            assert (await ask(bus)).outcome is Failure.ABSENT
        with pytest.raises(hookbus.CannotConnect):
            async with hookbus.connect(server.url, connect_timeout_s=0.5):
                pass


async def test_a_user_revoked_by_a_reload_is_cut_off_and_back_when_permitted_again() -> None:
    with EmbeddedServer(config=PERMISSIONS) as server:
        async with hookbus.connect(server.url.replace("//", "//agent:a@"), reconnect_wait_s=0.05) as bus:
            server.reload(PERMISSIONS.replace("user: agent, password: a", "user: nobody, password: a"))
            await until(lambda: not bus.is_connected)
            assert (await ask(bus)).outcome is Failure.BUS_DOWN
            server.reload(PERMISSIONS)
            await until(lambda: bus.is_connected)
            assert (await ask(bus)).outcome is Failure.ABSENT


@pytest.mark.parametrize("attempt", range(5))
async def test_leaving_while_it_reconnects_does_not_wait(server: EmbeddedServer, attempt: int) -> None:
    async with Proxy(server.port) as proxy:
        async with asyncio.timeout(PATIENCE_S):
            async with hookbus.connect(proxy.url) as bus:
                proxy.cut()
                await until(lambda: not bus.is_connected or bus.reconnects > 0)
                for _ in range(attempt * 3):
                    await asyncio.sleep(0)
        assert not bus.is_connected


async def test_leaving_under_a_cancellation_ends_everything(server: EmbeddedServer) -> None:
    with anyio.CancelScope() as scope:
        async with hookbus.connect(server.url) as bus:
            scope.cancel()
            await anyio.sleep_forever()
    assert not bus.is_connected
    assert bus._keeper is not None
    assert bus._keeper.done()


@pytest.mark.parametrize("last", [b"PONG\r\n", b"PONG\r\n-ERR 'No'\r\n", b"PONG\r\nPO", b"PONG\r\nrubbish\r\n"])
async def test_a_server_that_is_gone_when_it_has_greeted_is_not_joined(last: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"max_payload": 1000000, "headers": true}\r\n')
        await reader.readuntil(b"PING\r\n")
        writer.write(last)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as fake:
        host, port = fake.sockets[0].getsockname()
        lost: list[str] = []
        client = NatsClient(on_lost=lost.append, on_violation=lambda verb, subject: None)
        try:
            await client.open(f"nats://{host}:{port}", name="", creds=None, tls_ca=None, timeout_s=PATIENCE_S)
        except CannotConnect:
            pass
        else:
            await until(lambda: bool(lost))
        assert len(lost) <= 1
        with pytest.raises(BusDown):
            client.write((b"PING\r\n",), max_unsent_bytes=10**6)


async def test_what_one_turn_of_the_loop_sends_arrives_whole_and_in_order(shared_server: EmbeddedServer) -> None:
    """Small messages leave together, large ones alone, and none overtakes another."""
    sizes = [1, 600_000, 0, 70_000, 524_288, 3, 600_000, 5]
    seen: list[Message] = []
    async with hookbus.connect(shared_server.url) as bus, hookbus.connect(shared_server.url) as far:
        subject = f"order.{os.urandom(8).hex()}"
        far.serve([subject], "", seen.append, on_refused=lambda _subject: None)
        await far.flush(timeout_s=PATIENCE_S)
        for number, size in enumerate(sizes):
            bus.publish(subject, bytes([number]) * size, f"NATS/1.0\r\nn: {number}\r\n\r\n".encode())
        await until(lambda: len(seen) == len(sizes))
    assert [message.body for message in seen] == [bytes([n]) * size for n, size in enumerate(sizes)]
    assert [b"n: %d" % n in message.headers for n, message in enumerate(seen)] == [True] * len(sizes)


async def test_what_one_turn_of_the_loop_gathers_counts_as_unsent(shared_server: EmbeddedServer) -> None:
    async with hookbus.connect(shared_server.url, max_unsent_bytes=1000) as bus:
        # The first leaves at once, the second waits for the end of the turn, and the third for nothing.
        bus.publish("gathered", b"x" * 100)
        bus.publish("gathered", b"x" * 2000)
        with pytest.raises(BusDown):
            bus.publish("gathered", b"x" * 100)
        await bus.flush(timeout_s=PATIENCE_S)
        bus.publish("gathered", b"x" * 100)
