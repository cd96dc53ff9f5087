"""A hostile server: changing what is under way

It stands between agent and worker, without TLS and bound by no permission: what it delivers is its own choice, and
signatures alone tell. (Contract, section 5.)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from hookbus import envelope, subjects
from hookbus.authority.roles import Role
from hookbus.signing import Signer
from tests.bus.keys import seed
from tests.client.scripted import until
from tests.rogue.hostile import Frame
from tests.rogue.matrix import Stop, tried
from tests.rogue.middle import Holding, changing, in_the_middle
from tests.rogue.parties import ALLOW, Asked, asking, serving, signer_of
from tests.rogue.plain import PlainDeployment

pytestmark = pytest.mark.anyio


async def test_without_a_change_a_verdict_comes_through(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        assert await middle.agent.settled(middle.agent.ask()) == "allow"
        assert len(middle.to_worker.seen) == len(middle.to_agent.seen) == 1


def other_context(frame: Frame) -> Frame:
    assert b"book" in frame.body
    return frame._replace(body=frame.body.replace(b"book", b"fire"))


def later(frame: Frame) -> Frame:
    expires_ms = int(envelope.parse(frame.headers).values[envelope.EXPIRES_MS])
    return frame.with_headers(Hb_Expires_Ms=str(expires_ms + 600_000))


def unsigned(frame: Frame) -> Frame:
    return frame.with_headers(Hb_Signature=None, Hb_Key=None)


def signed_anew(frame: Frame) -> Frame:
    changed, own = other_context(frame), Signer(seed())
    covered = Asked(*changed[1:]).covered
    return changed.with_headers(Hb_Signature=own.sign(covered), Hb_Key=own.key)


@pytest.mark.parametrize(
    ("change", "refused", "comes_to"),
    [
        pytest.param(
            other_context,
            "400:SignatureInvalid",
            "forged",
            marks=tried("server", "changes a context", Stop.SIGNATURE, shows="`400`, `forged`"),
        ),
        pytest.param(
            lambda frame: frame._replace(subject=frame.subject.replace(".input.", ".output.")),
            "400:SignatureInvalid",
            "forged",
            marks=tried("server", "moves a question to another point", Stop.SIGNATURE, shows="`400`, `forged`"),
        ),
        pytest.param(
            later,
            "400:SignatureInvalid",
            "forged",
            marks=tried("server", "prolongs a question's life", Stop.SIGNATURE, shows="`400`, `forged`"),
        ),
        pytest.param(
            unsigned,
            "400:Unsigned",
            "rejected",
            marks=tried("server", "strips a question's signature", Stop.SIGNATURE, shows="`rejected`"),
        ),
        pytest.param(
            lambda frame: frame._replace(headers=b""),
            "400:Unsigned",
            "forged",
            marks=tried("server", "strips all of a question's headers", Stop.SIGNATURE, shows="`400`, `forged`"),
        ),
        pytest.param(
            lambda frame: frame.with_headers(Hb_Contract="0"),
            "400:ContractVersion",
            "forged",
            marks=tried(
                "server", "turns a question into another version's", Stop.HEADERS, shows="`400`, `forged`"
            ),
        ),
        pytest.param(
            signed_anew,
            "400:SignatureInvalid",
            "forged",
            marks=tried(
                "server", "changes a context, signs it by its own key", Stop.SIGNATURE, shows="`400`, `forged`"
            ),
        ),
    ],
)
async def test_a_question_changed_in_flight_is_not_evaluated(
    plain: PlainDeployment, change: Callable[[Frame], Frame], refused: str, comes_to: str
) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = changing(change)
        question = middle.agent.ask()
        # A refusal that covers what the worker saw, and not what was asked, is itself not believed.
        await until(lambda: question.outcome is not None or middle.agent.bus.dropped_answers == {"signature": 1})
        assert middle.agent.give_up(question) == comes_to
        assert middle.policy.last_error == refused
        assert middle.policy.policy.asked == 0


@tried("server", "gives a question another id", Stop.SIGNATURE, Stop.ID, shows="dropped, `forged`")
async def test_a_question_with_another_id_is_not_evaluated(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = changing(lambda frame: frame.with_headers(Hb_Id="0" * 32))
        question = middle.agent.ask()
        await middle.agent.dropped(id=1)
        assert middle.agent.give_up(question) == "forged"
        assert (middle.policy.last_error, middle.policy.policy.asked) == ("400:SignatureInvalid", 0)


def as_allow(frame: Frame) -> Frame:
    assert frame.body == b'{"decision":"deny"}'
    return frame._replace(body=ALLOW)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            as_allow,
            marks=tried("server", "turns a deny into an allow", Stop.SIGNATURE, shows="dropped, `forged`"),
        ),
        pytest.param(
            lambda frame: unsigned(as_allow(frame)),
            marks=tried("server", "the same, and strips the signature", Stop.SIGNATURE, shows="dropped, `forged`"),
        ),
        pytest.param(
            lambda frame: as_allow(frame)._replace(headers=b""),
            marks=tried("server", "the same, and strips all headers", Stop.SIGNATURE, shows="dropped, `forged`"),
        ),
        pytest.param(
            lambda frame: frame.with_headers(Hb_Worker="another"),
            marks=tried("server", "says that another worker answered", Stop.SIGNATURE, shows="dropped, `forged`"),
        ),
        pytest.param(
            lambda frame: frame.with_headers(Hb_Policy="v0"),
            marks=tried("server", "says that another policy decided", Stop.SIGNATURE, shows="dropped, `forged`"),
        ),
    ],
)
async def test_an_answer_changed_in_flight_settles_nothing(
    plain: PlainDeployment, change: Callable[[Frame], Frame]
) -> None:
    async with in_the_middle(plain) as middle:
        middle.to_agent.tamper = changing(change)
        question = middle.agent.ask()
        await middle.agent.dropped(signature=1)
        assert middle.agent.give_up(question) == "forged"
        assert middle.policy.policy.asked == 1


@tried(
    "server",
    "answers by itself, signed with a key of its own or with another interceptor's",
    Stop.SIGNATURE,
    shows="dropped, `forged`",
)
async def test_an_answer_of_the_servers_own_settles_nothing(plain: PlainDeployment) -> None:
    async with in_the_middle(plain) as middle:
        middle.to_worker.tamper = holding = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(holding.held))
        asked = Asked(*holding.held[0][1:])
        (sid,) = middle.to_agent.sids.values()
        for role, name in ((Role.WORKER, "redactor"), (Role.AGENT, "travel")):
            headers = asked.answered(signer_of(plain, role, name))
            middle.to_agent.deliver(Frame(sid, asked.reply, "", headers, ALLOW))
        await middle.agent.dropped(signature=2)
        assert middle.agent.give_up(question) == "forged"


@tried("server", "swaps the reply subjects of two questions", Stop.SIGNATURE, Stop.ID, shows="dropped, `forged`")
async def test_two_questions_with_their_reply_subjects_swapped_are_not_evaluated(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = holding = Holding()
        questions = [middle.agent.ask(content) for content in ("one", "two")]
        await until(lambda: len(holding.held) == 2)
        one, two = holding.held
        middle.to_worker.deliver(one._replace(reply=two.reply), two._replace(reply=one.reply))
        await middle.agent.dropped(id=2)
        assert [middle.agent.give_up(question) for question in questions] == ["forged", "forged"]
        assert (middle.policy.last_error, middle.policy.policy.asked) == ("400:SignatureInvalid", 0)


@tried("server", "swaps the answers to two questions", Stop.ID, shows="dropped, `forged`")
@tried("server", "the same, and swaps their ids too", Stop.SIGNATURE, shows="dropped, `forged`")
async def test_two_answers_swapped_settle_nothing(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_agent.tamper = holding = Holding()
        questions = [middle.agent.ask(content) for content in ("one", "two")]
        await until(lambda: len(holding.held) == 2)
        one, two = holding.held
        swapped = one._replace(subject=two.subject), two._replace(subject=one.subject)
        middle.to_agent.deliver(*swapped)
        await middle.agent.dropped(id=2)
        for frame, other in zip(swapped, (two, one), strict=True):
            right_id = envelope.parse(other.headers).values[envelope.ID]
            middle.to_agent.deliver(frame.with_headers(Hb_Id=right_id))
        await middle.agent.dropped(id=2, signature=2)
        assert [middle.agent.give_up(question) for question in questions] == ["forged", "forged"]


@tried("server", "moves a question to another agent's name", Stop.REPLY, Stop.SIGNATURE, shows="dropped, `silent`")
async def test_a_question_moved_to_another_agents_name_is_not_evaluated(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = holding = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(holding.held))
        (asked,) = holding.held
        moved = asked._replace(subject=subjects.question("default", "policy", "input", "payroll"))
        middle.to_worker.deliver(moved)
        await until(lambda: middle.policy.count("unanswerable") == 1)
        middle.to_worker.deliver(moved._replace(reply=asked.reply.replace(".travel.", ".payroll.")))
        await until(lambda: middle.policy.last_error == "400:SignatureInvalid")
        assert middle.agent.give_up(question) == "silent"
        assert middle.policy.policy.asked == 0


@tried("server", "gives a question to another interceptor's worker", Stop.REPLY, shows="dropped, `silent`")
@tried("server", "the same, and has it answer on its own subject", Stop.SIGNATURE, shows="`400`, `silent`")
async def test_a_question_given_to_another_interceptor_is_not_evaluated(plain: PlainDeployment) -> None:
    async with (
        in_the_middle(plain, "allow") as middle,
        serving(plain, "redactor", url=middle.to_worker.url) as redactor,
    ):
        # The hostile server speaks to whoever connected last, which is the redactor.
        sid = middle.to_worker.sids["hb.v1.default.ctx.redactor.*.*"]
        middle.to_worker.tamper = holding = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(holding.held))
        (asked,) = holding.held
        middle.to_worker.deliver(asked._replace(sid=sid))
        await until(lambda: redactor.count("unanswerable") == 1)
        middle.to_worker.deliver(asked._replace(sid=sid, reply=asked.reply.replace(".policy.", ".redactor.")))
        await until(lambda: redactor.last_error == "400:SignatureInvalid")
        assert middle.agent.give_up(question) == "silent"
        assert (middle.policy.policy.asked, redactor.policy.asked) == (0, 0)


@tried(
    "server",
    "holds a question back until it has expired, and says that there is time left",
    Stop.EXPIRY,
    shows="`408`, `silent`",
)
async def test_a_question_held_back_is_not_evaluated_once_it_has_expired(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_worker.tamper = holding = Holding()
        question = middle.agent.ask(budget_s=0.05)
        await until(lambda: bool(holding.held))
        (asked,) = holding.held
        expires_ms = int(envelope.parse(asked.headers).values[envelope.EXPIRES_MS])
        await until(lambda: time.time_ns() // 1_000_000 > expires_ms)
        assert middle.agent.give_up(question) == "silent"
        middle.to_worker.deliver(asked.with_headers(Hb_Budget_Ms="600000"))
        await until(lambda: middle.policy.last_error == "408:Expired")
        await middle.agent.dropped(unasked=1)
        assert middle.policy.policy.asked == 0


@tried("server", "holds an answer back until its question has ended", Stop.SETTLED, shows="dropped, `silent`")
async def test_an_answer_held_back_changes_nothing(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle:
        middle.to_agent.tamper = holding = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(holding.held))
        assert middle.agent.give_up(question) == "silent"
        middle.to_agent.deliver(*holding.held)
        await middle.agent.dropped(unasked=1)
        assert middle.agent.give_up(question) == "silent"


@pytest.mark.parametrize(
    ("decision", "change", "comes_to"),
    [
        ("raise", lambda frame: frame.with_headers(Nats_Service_Error_Code=None), "malformed"),
        ("raise", lambda frame: frame.with_headers(Nats_Service_Error_Code="200"), "raised"),
        ("allow", lambda frame: frame.with_headers(Nats_Service_Error_Code="429"), "busy"),
        ("allow", lambda frame: frame._replace(headers=b"NATS/1.0 503\r\n\r\n", body=b""), "absent"),
    ],
)
@tried(
    "server",
    "turns an error into a verdict or a verdict into an error: the code is not signed",
    Stop.DENIES,
    shows="`malformed`, `raised`, `busy`, `absent`",
)
async def test_an_error_never_becomes_a_permit(
    plain: PlainDeployment, decision: str, change: Callable[[Frame], Frame], comes_to: str
) -> None:
    async with in_the_middle(plain, decision) as middle:
        middle.to_agent.tamper = changing(change)
        assert await middle.agent.settled(middle.agent.ask()) == comes_to


@tried("server", "says that the agent may not ask, or hangs up", Stop.DENIES, shows="`refused`, `bus_down`")
async def test_what_the_server_says_of_itself_only_denies(plain: PlainDeployment) -> None:
    async with in_the_middle(plain) as middle:
        middle.to_worker.tamper = Holding()
        question = middle.agent.ask()
        await until(lambda: bool(middle.to_worker.seen))
        middle.to_agent.say(f"-ERR 'Permissions Violation for Publish to \"{question.subject}\"'\r\n".encode())
        assert await middle.agent.settled(question) == "refused"
        question = middle.agent.ask()
        middle.to_agent.say(b"-ERR 'Stale Connection'\r\n")
        assert await middle.agent.settled(question) == "bus_down"
        await until(lambda: middle.agent.bus.reconnects == 1)


async def test_agents_of_two_names_are_both_heard_by_a_worker_in_the_middle(plain: PlainDeployment) -> None:
    async with in_the_middle(plain, "allow") as middle, asking(plain, "payroll") as payroll:
        asked = asyncio.gather(*(agent.settled(agent.ask()) for agent in (middle.agent, payroll)))
        assert await asked == ["allow", "allow"]
