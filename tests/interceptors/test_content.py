"""Every text of a target is judged, and becomes what its category says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_hooks import Decision
from hypothesis import given, settings
from hypothesis import strategies as st

from hookbus.server import EmbeddedServer
from hookbus_interceptors.authoring.testing import Answer, AsyncTestClient
from hookbus_interceptors.content import Content, ContentConfiguration
from hookbus_interceptors.content.judging import Judgement
from hookbus_interceptors.content.passages import PROTOCOL_WORDS, NotReplaceable, passages, pieces, replaced
from hookbus_interceptors.recent import Recent
from tests.interceptors.moderation_endpoint import Endpoint, moderating
from tests.interceptors.shared_store import opened

pytestmark = pytest.mark.anyio

CATEGORIES: dict[str, Any] = {
    "violence": {"at": 0.8},
    "hate": {"at": 0.5, "action": "escalate"},
    "self-harm/intent": {"at": 0.4, "action": "rewrite"},
}
NOTICE = "[removed by the content policy]"
SAD = "self-harm/intent=0.4"
Ask = Callable[[AsyncTestClient, Any], Awaitable[Answer]]


def content(url: str, **settings: Any) -> Content:
    return Content(ContentConfiguration.model_validate({"url": url, "categories": CATEGORIES, **settings}))


@asynccontextmanager
async def judging(server: EmbeddedServer, **settings: Any) -> AsyncIterator[tuple[AsyncTestClient, Endpoint]]:
    async with moderating() as endpoint:
        async with opened(server.url, "default", content(endpoint.url, **settings)) as [client]:
            yield client, endpoint


async def test_text_that_meets_nothing_passes_and_the_request_is_that_of_openai(
    shared_server: EmbeddedServer,
) -> None:
    async with judging(shared_server, model="guard") as (client, endpoint):
        answer = await client.input("good morning")
        assert (answer.decision, answer.reason, answer.error) == (Decision.ALLOW, None, None)
        assert endpoint.bodies == [{"input": ["good morning"], "model": "guard"}]
        assert endpoint.headers[0]["Content-Type"] == "application/json"


async def test_a_score_at_its_threshold_meets_the_category_and_one_below_does_not(
    shared_server: EmbeddedServer,
) -> None:
    async with judging(shared_server) as (client, _):
        assert (await client.input("violence=0.79")).permits
        denied = await client.input("violence=0.8")
        assert (denied.reason, denied.escalates) == ("content:flagged:violence", False)
        assert denied.message == "target.content is flagged by the classifier as violence."


async def test_a_category_may_ask_a_person_who_is_told_the_place(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server) as (client, _):
        answer = await client.pre_tool_call("post", {"to": "all", "lines": ["hello", "hate=0.6"]})
        assert answer.escalates
        assert answer.reason == "content:flagged:hate"
        assert answer.verdict.approval == {"category": "hate", "place": "target.lines[1]"}


async def test_the_gravest_action_of_all_texts_wins(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server) as (client, _):
        answer = await client.post_tool_call("read", value=[SAD, "hate=0.6", "violence=0.9"])
        assert answer.reason == "content:flagged:violence"
        answer = await client.post_tool_call("read", value=[SAD, "hate=0.6"])
        assert answer.reason == "content:flagged:hate"


async def test_offending_texts_are_replaced_by_a_notice_in_one_transform_and_nothing_else_is(
    shared_server: EmbeddedServer,
) -> None:
    value = {"id": 7, "rows": [{"note": SAD, "ok": True}, {"note": "fine", "more": f"x {SAD}"}], "none": None}
    async with judging(shared_server) as (client, _):
        answer = await client.post_tool_call("read", value=value)
        assert answer.transform is not None
        assert answer.transform.path == "$target"
        assert answer.reason == "content:flagged:self-harm/intent"
        assert answer.target == {
            "id": 7,
            "rows": [{"note": NOTICE, "ok": True}, {"note": "fine", "more": NOTICE}],
            "none": None,
        }


async def test_text_inside_json_text_is_replaced_there_and_the_json_stays_json(
    shared_server: EmbeddedServer,
) -> None:
    # Written with an escape, as a classifier would not read it.
    arguments = '{"note": "\\u0073elf-harm/intent=0.4", "to": "Ann"}'
    call = {"id": "c", "type": "function", "function": {"name": "post", "arguments": arguments}}
    async with judging(shared_server) as (client, _):
        answer = await client.pre_model_call([{"role": "assistant", "content": None, "tool_calls": [call]}])
        rewritten = answer.target[0]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(rewritten) == {"note": NOTICE, "to": "Ann"}


async def test_a_name_that_offends_cannot_be_replaced_and_denies(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server) as (client, _):
        answer = await client.post_tool_call("read", value={SAD: 1})
        assert answer.reason == "content:flagged:self-harm/intent"
        assert not answer.permits
        assert not answer.escalates


async def test_where_no_transform_is_permitted_a_rewrite_denies(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server) as (client, _):
        answer = await client.agent_startup(["search", SAD])
        assert (answer.permits, answer.reason) == (False, "content:flagged:self-harm/intent")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, bad: client.agent_startup(["search", bad]),
        lambda client, bad: client.input(bad),
        lambda client, bad: client.input([{"type": "text", "text": "hi"}, {"type": "text", "text": bad}]),
        lambda client, bad: client.input("hi", role=bad),
        lambda client, bad: client.pre_model_call([{"role": "user", "content": bad}]),
        lambda client, bad: client.pre_model_call([{"role": "tool", "content": [{"text": bad}]}]),
        lambda client, bad: client.pre_model_call([{"role": "user", "content": "hi", "name": bad}]),
        lambda client, bad: client.post_model_call(bad),
        lambda client, bad: client.post_model_call(None, [{"id": "c", "name": "post", "args": {"a": [bad]}}]),
        lambda client, bad: client.pre_tool_call("post", {"deep": [{"er": {"text": bad}}]}),
        lambda client, bad: client.pre_tool_call("post", {bad: 1}),
        lambda client, bad: client.post_tool_call("read", value=bad),
        lambda client, bad: client.post_tool_call("read", value={"structured": [[bad]]}),
        lambda client, bad: client.post_tool_call("read", value=json.dumps({"page": json.dumps([bad])})),
        lambda client, bad: client.post_tool_call("read", value=bad, is_error=True),
        lambda client, bad: client.output(bad),
        lambda client, bad: client.output({"card": {"title": bad}}),
    ],
)
async def test_text_is_judged_at_every_point_and_in_every_part_of_the_target(
    shared_server: EmbeddedServer, ask: Ask
) -> None:
    async with judging(shared_server) as (client, _):
        assert (await ask(client, "x violence=1 y")).reason == "content:flagged:violence"
        good = await ask(client, "x peace y")
        assert (good.decision, good.error) == (Decision.ALLOW, None)


async def test_the_end_of_a_session_is_judged_like_the_rest(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server) as (client, endpoint):
        assert (await client.agent_shutdown("completed")).permits
        # A word of the standard itself asks nobody.
        assert endpoint.asked == []


async def test_what_is_flagged_for_something_unnamed_denies_unless_that_is_ignored(
    shared_server: EmbeddedServer,
) -> None:
    async with judging(shared_server) as (client, _):
        answer = await client.input("fraud=0.7")
        assert (answer.permits, answer.reason) == (False, "content:flagged")
        # Flagged by the endpoint's own threshold, and named: the configured threshold decides.
        assert (await client.input("violence=0.6")).permits
    async with judging(shared_server, flagged="ignore") as (client, _):
        assert (await client.input("fraud=0.7")).permits
    async with judging(shared_server, flagged="rewrite") as (client, _):
        assert (await client.input("fraud=0.7")).target["content"] == NOTICE


async def test_long_text_is_judged_to_its_end_and_across_the_cuts(shared_server: EmbeddedServer) -> None:
    bad = "violence=0.9"
    async with judging(shared_server, piece=100, overlap=20, batch=4) as (client, endpoint):
        for before in range(75, 105):
            answer = await client.input(f"{'a ' * (before // 2)} {bad} {'b ' * 300}")
            assert answer.reason == "content:flagged:violence", before
        assert (await client.input(f"{'c ' * 1000}{bad}")).reason == "content:flagged:violence"
        assert (await client.input("d " * 1000)).permits
        assert max(map(len, endpoint.texts)) == 100
        assert max(map(len, endpoint.asked)) == 4


async def test_more_text_than_is_judged_denies_and_nothing_is_cut_off(shared_server: EmbeddedServer) -> None:
    async with judging(shared_server, piece=100, overlap=20, most=10) as (client, endpoint):
        varied = "".join(f"{number:4}" for number in range(500))
        assert (await client.input(varied[:820])).permits
        asked = len(endpoint.asked)
        answer = await client.input(varied[:821])
        assert answer.reason == "content:unjudged:too-long"
        assert len(endpoint.asked) == asked


@settings(deadline=None)
@given(st.text(max_size=300), st.integers(16, 40), st.data())
def test_whatever_is_no_longer_than_the_overlap_stands_whole_in_a_piece(
    text: str, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size // 2))
    cut = pieces(text, size=size, overlap=overlap)
    assert all(len(piece) <= size for piece in cut)
    assert cut[0] + "".join(piece[overlap:] for piece in cut[1:]) == text
    start = data.draw(st.integers(0, len(text)))
    assert any(text[start : start + overlap] in piece for piece in cut)


_NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
_TARGETS = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(_TARGETS)
def test_every_text_that_says_something_is_found_wherever_it_stands(target: Any) -> None:
    def texts(value: Any) -> set[str]:
        if isinstance(value, str):
            is_document = value.lstrip()[:1] in ("[", "{")
            return set() if is_document or not value.strip() else {value}
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return {text for member in members for text in texts(member)}

    assert texts(target) - PROTOCOL_WORDS <= passages(target).keys()


@settings(deadline=None)
@given(_TARGETS, st.data())
def test_after_a_replacement_none_of_the_texts_stands_anywhere_and_all_others_do(
    target: Any, data: st.DataObject
) -> None:
    wrapped = [target, json.dumps({"inner": target})]
    before = passages(wrapped).keys() - {NOTICE}
    offending = data.draw(st.sets(st.sampled_from(sorted(before)))) if before else set()
    try:
        after = passages(replaced(wrapped, dict.fromkeys(offending, NOTICE))).keys()
    except NotReplaceable:
        return
    assert after - {NOTICE} == before - offending


async def test_a_text_is_asked_about_once_while_its_judgement_is_fresh(shared_server: EmbeddedServer) -> None:
    said = [{"role": "user", "content": "first"}]
    async with judging(shared_server) as (client, endpoint):
        assert (await client.pre_model_call(said)).permits
        said += [{"role": "assistant", "content": "second"}, {"role": "user", "content": "first"}]
        assert (await client.pre_model_call(said)).permits
        assert endpoint.texts == ["first", "second"]
        assert not (await client.input("violence=1")).permits
        assert not (await client.output("violence=1")).permits
        assert endpoint.texts == ["first", "second", "violence=1"]
    async with judging(shared_server, remember_s=0) as (client, endpoint):
        assert (await client.input("first")).permits
        assert (await client.input("first")).permits
        assert endpoint.texts == ["first", "first"]


def test_judgements_end_with_their_time_and_the_oldest_give_way() -> None:
    now = [0.0]
    recent = Recent[Judgement](2, 10.0, lambda: now[0])
    judged = Judgement(False, {"violence": 0.1})
    recent.keep("a", judged)
    now[0] = 9.0
    assert recent.find("a") == judged
    recent.keep("b", judged)
    now[0] = 10.0
    assert recent.find("a") is None
    recent.keep("c", judged)
    recent.keep("d", judged)
    assert [recent.find(text) is not None for text in "bcd"] == [False, True, True]


async def test_a_plain_endpoint_is_asked_one_text_at_a_time_and_read_by_paths(
    shared_server: EmbeddedServer,
) -> None:
    categories = {"violence": {"at": 0.8, "score": "label=VIOLENCE.score"}}
    async with judging(shared_server, shape="plain", categories=categories) as (client, endpoint):
        answer = await client.post_tool_call("read", value=["one", "two", "violence=0.9"])
        assert answer.reason == "content:flagged:violence"
        assert sorted(endpoint.texts) == ["one", "two", "violence=0.9"]
        assert all(isinstance(body["input"], str) for body in endpoint.bodies)
        assert (await client.output("three")).permits


async def test_a_changed_file_is_a_new_policy_over_the_same_connections(
    shared_server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "content.toml"
    async with moderating() as endpoint:
        path.write_text(f'version = "1"\nurl = "{endpoint.url}"\ncategories = {{ violence = {{ at = 0.9 }} }}\n')
        reloading = Content.from_config(path)
        async with opened(shared_server.url, "default", reloading) as [client]:
            first = await client.input("violence=0.8")
            assert first.permits
            path.write_text(path.read_text().replace("0.9", "0.7"))
            assert reloading.reload()
            second = await client.input("violence=0.8")
            assert second.reason == "content:flagged:violence"
            assert first.policy_version != second.policy_version
            assert len(endpoint.connections) == 1
