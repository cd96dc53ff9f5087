"""An endpoint that fails in any way denies in time, and the reason says which way it was."""

from __future__ import annotations

import datetime
import ipaddress
import re
import ssl
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

import hookbus
from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import AsyncTestClient, TestClient
from hookbus_interceptors.configuration import ConfigurationInvalid
from hookbus_interceptors.content import Content, ContentConfiguration
from hookbus_interceptors.content.judging import EndpointClosed, Why
from tests.interceptors.moderation_endpoint import Broken, breaking, http, moderating
from tests.interceptors.shared_store import opened, tool_result
from tests.worker.asking import eventually
from tests.worker.processes import ROOT, WorkerProcess

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"
CATEGORIES = {"violence": {"at": 0.8}}


def settings(url: str = "http://127.0.0.1:9/", **more: Any) -> ContentConfiguration:
    return ContentConfiguration.model_validate({"url": url, "categories": CATEGORIES, **more})


@asynccontextmanager
async def judging(server: EmbeddedServer, url: str, **more: Any) -> AsyncIterator[AsyncTestClient]:
    async with opened(server.url, "default", Content(settings(url, **more))) as [client]:
        yield client


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Broken(b"", holds=True), Why.LATE),
        (Broken(http(b'{"res', length=500), holds=True), Why.LATE),
        (Broken(b"HTTP/1.1 200 OK\r\nContent-Le", holds=True), Why.LATE),
        (Broken(b""), Why.BROKEN_OFF),
        (Broken(http(b'{"res', length=500)), Why.BROKEN_OFF),
        (Broken(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}"), Why.BROKEN_OFF),
        (Broken(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"), Why.BROKEN_OFF),
        (Broken(b"SSH-2.0-OpenSSH_9.6\r\n"), Why.BROKEN_OFF),
        (Broken(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n{}"), Why.BROKEN_OFF),
        (Broken(http(b"{}", "307 Temporary Redirect", more="Location: /elsewhere\r\n")), Why.REDIRECT),
        (Broken(http(b"{}", "500 Internal Server Error")), Why.STATUS),
        (Broken(http(b"{}", "401 Unauthorized")), Why.STATUS),
        (Broken(http(b"{}", "429 Too Many Requests", more="Retry-After: 1\r\n")), Why.STATUS),
        (Broken(http(b"{}", "202 Accepted")), Why.STATUS),
        (Broken(http(b"<html>it works</html>")), Why.NOT_JSON),
        (Broken(http(b"")), Why.NOT_JSON),
        (Broken(http(b'{"results": []')), Why.NOT_JSON),
        (Broken(http(b'{"results": [NaN]}')), Why.NOT_JSON),
        (Broken(http(b'{"results": [1e999]}')), Why.NOT_JSON),
        (Broken(http(b'{"results": [], "results": []}')), Why.NOT_JSON),
        (Broken(http(b"[" * 5000 + b"]" * 5000)), Why.NOT_JSON),
        (Broken(http(b"\x1f\x8b\x08\x00", more="Content-Encoding: gzip\r\n")), Why.NOT_JSON),
        (Broken(http(b'{"results": []}')), Why.MALFORMED),
        (Broken(http(b"HTTP/1.1 200 OK\r\n\r\n", length=2**40), endless=True), Why.TOO_LARGE),
    ],
)
async def test_an_endpoint_that_is_broken_denies_in_time_and_says_how(
    shared_server: EmbeddedServer, broken: Broken, why: Why, caplog: pytest.LogCaptureFixture
) -> None:
    async with breaking(broken) as url:
        async with judging(shared_server, url, timeout_s=0.3, max_answer_bytes=100_000) as client:
            answer = await client.input("a word of the payload")
            with anyio.fail_after(10):
                # What is left of the request is not held open until the interceptor ends.
                await broken.left.wait()
    assert answer.error is None
    assert (answer.reason, answer.permits, answer.escalates) == (f"content:unjudged:{why}", False, False)
    assert broken.written_bytes < 50_000_000
    assert "payload" not in f"{answer.message} {caplog.text}"


async def test_a_refused_connection_denies(shared_server: EmbeddedServer) -> None:
    async with breaking(Broken(b"")) as url:
        pass
    async with judging(shared_server, url) as client:
        assert (await client.input("hi")).reason == "content:unjudged:unreachable"


async def test_an_answer_with_a_status_tells_it(shared_server: EmbeddedServer) -> None:
    async with breaking(Broken(http(b"{}", "503 Service Unavailable"))) as url:
        async with judging(shared_server, url) as client:
            message = (await client.input("hi")).message
    assert message == "Not judged: the moderation endpoint answered with an HTTP error (503)."


async def test_the_question_s_own_deadline_comes_before_the_endpoint_s(shared_server: EmbeddedServer) -> None:
    async with breaking(Broken(b"", holds=True)) as url:
        patient = Content(settings(url, timeout_s=60))
        async with opened(shared_server.url, "default", patient):
            # An answer of its own, and not the host's for a question that nobody answered.
            answer = await AsyncTestClient(patient, timeout_s=0.5).input("hi")
            assert answer.reason == "content:unjudged:late"
    async with breaking(Broken(b"", holds=True)) as url:
        async with judging(shared_server, url, margin_s=5) as client:
            assert (await client.input("hi")).reason == "content:unjudged:late"
            # Nothing is left to judge, so nothing is late.
            assert (await client.agent_shutdown("completed")).permits


async def test_hanging_requests_are_given_up_and_leave_the_connections_to_others(
    shared_server: EmbeddedServer,
) -> None:
    async with moderating() as endpoint:
        async with judging(shared_server, endpoint.url, connections=2, timeout_s=0.3, batch=1) as client:
            endpoint.open.clear()
            answer = await client.post_tool_call("read", value=[str(number) for number in range(12)])
            assert answer.reason == "content:unjudged:late"
            assert endpoint.most_at_once == 2
            endpoint.open.set()
            for number in range(12):
                assert (await client.input(f"again {number}")).permits


async def test_an_endpoint_that_failed_is_asked_again_and_its_failure_is_not_remembered(
    shared_server: EmbeddedServer,
) -> None:
    async with moderating() as endpoint:
        async with judging(shared_server, endpoint.url, timeout_s=0.2) as client:
            endpoint.open.clear()
            assert (await client.input("hi")).reason == "content:unjudged:late"
            endpoint.open.set()
            assert (await client.input("hi")).permits


async def test_questions_one_after_another_use_one_warm_connection(shared_server: EmbeddedServer) -> None:
    async with moderating() as endpoint:
        async with judging(shared_server, endpoint.url) as client:
            for number in range(5):
                assert (await client.input(f"text {number}")).permits
            assert len(endpoint.connections) == 1


async def test_at_most_so_many_requests_run_at_once(shared_server: EmbeddedServer) -> None:
    async with moderating() as endpoint:
        async with judging(shared_server, endpoint.url, connections=3, batch=2) as client:
            endpoint.open.clear()

            async def all_that_may_run() -> bool:
                return endpoint.at_once == 3

            async def ask() -> None:
                assert (await client.post_tool_call("read", value=[str(number) for number in range(40)])).permits

            async with anyio.create_task_group() as asking:
                asking.start_soon(ask)
                await eventually(all_that_may_run)
                endpoint.open.set()
            assert endpoint.most_at_once == 3
            assert len(endpoint.asked) == 20


def test_without_its_lifespan_it_denies() -> None:
    answer = TestClient(Content(settings())).input("hi")
    assert isinstance(answer.error, EndpointClosed)
    assert not answer.permits


async def test_the_key_goes_to_the_endpoint_and_is_shown_nowhere(
    shared_server: EmbeddedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key, path = tmp_path / "key", tmp_path / "content.toml"
    key.write_text(f"{SECRET}\n")
    async with moderating() as endpoint:
        path.write_text(f'url = "{endpoint.url}"\nkey_file = "key"\n')
        reloading = Content.from_config(path)
        async with opened(shared_server.url, "default", reloading) as [client]:
            answer = await client.input("one")
            assert answer.permits
            assert endpoint.headers[-1]["Authorization"] == f"Bearer {SECRET}"
            key.write_text(f"{SECRET}-2")
            assert not reloading.reload(), "a key alone is no other policy"
            assert (await client.input("two")).policy_version == answer.policy_version
            assert endpoint.headers[-1]["Authorization"] == f"Bearer {SECRET}-2"
            shown = f"{reloading.current.configuration!r} {reloading.current.configuration.model_dump_json()}"
            key.write_text(f"{SECRET} with\nanother line")
            assert not reloading.reload()
            assert reloading.problem is not None
            assert SECRET not in f"{shown} {reloading.problem} {caplog.text}"


async def test_the_key_may_stand_in_a_variable_and_go_in_another_header(
    shared_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODERATION_KEY", SECRET)
    async with moderating() as endpoint:
        keyed = {"key_variable": "MODERATION_KEY", "key_header": "X-Api-Key"}
        async with judging(shared_server, endpoint.url, **keyed) as client:
            assert (await client.input("hi")).permits
        assert endpoint.headers[0]["X-Api-Key"] == SECRET
        assert "Authorization" not in endpoint.headers[0]


async def test_only_the_configured_certificates_vouch_for_the_endpoint(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    certificate, served = self_signed(tmp_path)
    async with moderating(served) as endpoint:
        async with judging(shared_server, endpoint.url, ca_file=certificate) as client:
            assert (await client.input("hi")).permits
        async with judging(shared_server, endpoint.url) as client:
            assert (await client.input("hi")).reason == "content:unjudged:unreachable"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://host/"},
        {"url": f"http://user:{SECRET}@host/"},
        {"url": f"http://host/?key={SECRET}"},
        {"categories": {"a category": {"at": 0.5}}},
        {"categories": {"violence": {"at": 0}}},
        {"categories": {"violence": {"at": 1.1}}},
        {"categories": {"violence": {"at": float("nan")}}},
        {"categories": {"violence": {"at": 0.5, "action": "allow"}}},
        {"categories": {"violence": {"at": 0.5, "score": "x"}}},
        {"categories": {}, "flagged": "ignore"},
        {"flag": "flagged"},
        {"shape": "plain"},
        {"shape": "plain", "categories": {}},
        {"piece": 100, "overlap": 51},
        {"key_file": SECRET, "key_variable": "PATH"},
        {"key_file": ""},
        {"key_file": f"{SECRET}\nx"},
        {"key_variable": "NOT_SET_ANYWHERE"},
        {"ca_file": "no certificate"},
        {"timeout_s": float("inf")},
        {"treshold": 1},
    ],
)
def test_settings_that_cannot_be_meant_are_refused_without_a_secret_in_the_message(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ValidationError):
        settings(**wrong)
    path = tmp_path / "content.toml"
    path.write_text(f'url = "http://user:{SECRET}@host/"\n')
    with pytest.raises(ConfigurationInvalid) as refused:
        Content.from_config(path)
    assert SECRET not in str(refused.value)


def test_the_configurations_of_the_page_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    shown = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/interceptors/content.md").read_text("utf-8"), re.DOTALL)
    assert len(shown) == 3
    for text in shown:
        ContentConfiguration.model_validate(tomllib.loads(text))


@pytest.mark.slow
async def test_a_worker_rewrites_over_the_bus_and_denies_once_its_endpoint_is_gone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "content.toml"
    async with hookbus.connect(server.url) as bus:
        asked = bus.interceptor("content")
        async with moderating() as endpoint:
            path.write_text(
                f'version = "7"\nurl = "{endpoint.url}"\n'
                'categories = { violence = { at = 0.8, action = "rewrite" } }\n'
            )

            def started() -> WorkerProcess:
                target = "hookbus_interceptors.content:Content"
                arguments = ("--interceptor-config", str(path))
                return WorkerProcess(target, "content", *arguments, url=server.url).__enter__()

            # The endpoint is on this loop, so nothing here may hold it.
            worker = await anyio.to_thread.run_sync(started)
            try:
                verdict = await asked.intercept({**tool_result(), "target": ["fine", "violence=0.9"]})
                assert verdict["decision"] == "transform"
                assert verdict["transform"]["value"] == ["fine", "[removed by the content policy]"]
                assert (await asked.intercept(tool_result()))["decision"] == "allow"
                endpoint.open.clear()
                late = await asked.intercept({**tool_result(), "target": "never seen"})
                assert (late["decision"], late["reason"]) == ("deny", "content:unjudged:late")
                endpoint.open.set()
                await endpoint.close()

                async def is_unreachable() -> bool:
                    gone = await asked.intercept({**tool_result(), "target": "not seen either"})
                    assert gone["decision"] == "deny"
                    return bool(gone["reason"] == "content:unjudged:unreachable")

                await eventually(is_unreachable)
            finally:
                await anyio.to_thread.run_sync(worker.__exit__, None, None, None)


def self_signed(folder: Path) -> tuple[str, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that vouches for itself, and a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both = folder / "both.pem"
    both.write_bytes(private + pem)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(both)
    return pem.decode(), served
