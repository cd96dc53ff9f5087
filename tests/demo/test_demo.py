"""``hookbus demo`` as a person or a pipeline runs it: a command in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio.to_thread
import pytest

from hookbus_client.demo.scripted_endpoint import Message, Reply, Script, Tool, ToolCall, scripted_endpoint

pytestmark = pytest.mark.slow

HOOKBUS = Path(sysconfig.get_path("scripts")) / "hookbus"
#: A line of the view: the time an emission took, its point, every interceptor with its verdict.
EMISSION = re.compile(
    r"^ +(?P<ms>[\d.]+) ms  (?P<point>\w+) +(?P<verdicts>(\w+ (allow|deny|transform)( · )?)+)$", re.M
)
#: Its second line when the action did not proceed.
DENIED = re.compile(r"^ +denied: (.*)$", re.MULTILINE)


@contextmanager
def demo(**environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start the demo in a process group of its own; afterwards nothing of that group may be left."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    running = subprocess.Popen(
        [HOOKBUS, "demo"],
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with running:
        try:
            yield running
            running.wait()
            with pytest.raises(ProcessLookupError):
                os.killpg(running.pid, 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def transcript() -> str:
    """What the demo prints, run from end to end without a terminal."""
    # Settings for a real bus do not reach into the demo.
    with demo(HOOKBUS_URL="nats://127.0.0.1:1", HOOKBUS_TENANT="elsewhere") as running:
        out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    return out


def after_the_kill(transcript: str) -> str:
    return transcript.split("(SIGKILL)")[1]


def test_it_shows_every_emission_in_order_with_each_verdict_and_its_time(transcript: str) -> None:
    emissions = list(EMISSION.finditer(transcript))
    model_call = ["pre_model_call", "post_model_call"]
    permitted, refused = ["pre_tool_call", "post_tool_call"], ["pre_tool_call"]
    assert [emission["point"] for emission in emissions] == [
        "agent_startup",
        *("input", *model_call, *permitted, *model_call, *refused, *model_call, *permitted, *model_call, "output"),
        *("input", *model_call, *refused, *model_call, "output"),
        "agent_shutdown",
    ]
    assert all(0 < float(emission["ms"]) < 5000 for emission in emissions)
    asked = {emission["point"]: re.findall(r"(\w+) \w+", emission["verdicts"]) for emission in emissions}
    assert asked.pop("pre_tool_call") == ["policy", "redactor"]
    assert set(map(tuple, asked.values())) == {("redactor",)}


def test_first_class_is_refused_with_the_reason_and_the_next_class_is_booked(transcript: str) -> None:
    assert (
        "policy deny · redactor allow\n              denied: first class needs a manager's approval" in transcript
    )
    assert re.search(r"refused +book_ticket\(.*'first'\) → .*first class needs a manager's approval", transcript)
    assert re.search(r"tool +book_ticket\(.*'pullman'\) → Booked", transcript)
    assert re.search(r"agent +Booked: train 301, pullman.*first class needs a manager's approval", transcript)


def test_what_was_refused_was_never_booked(transcript: str) -> None:
    assert re.findall(r"Really booked so far: (.*)", transcript) == ["train 301 pullman", "train 301 pullman"]


def test_no_document_number_passes_the_redactor(transcript: str) -> None:
    passed = [line for line in transcript.splitlines() if re.match(r"  (tool|refused|agent) ", line)]
    assert sum("DNI ***" in line for line in passed) >= 3
    assert not any(re.search(r"DNI \d", line) for line in passed)
    transformed = [
        emission["point"] for emission in EMISSION.finditer(transcript) if "transform" in emission["verdicts"]
    ]
    assert transformed == ["post_tool_call", "post_tool_call", "input"]


def test_without_its_policy_worker_the_same_booking_is_denied_at_once_and_in_plain_words(transcript: str) -> None:
    end = after_the_kill(transcript)
    assert DENIED.findall(end) == ["host_error:interceptor_failed: absent: no worker of 'policy' is subscribed"]
    assert re.search(r"refused +book_ticket\(train='301', seat_class='pullman'\)", end)
    assert re.search(r"agent +I could not book the seat.*no worker of 'policy' is subscribed", end)
    [denied] = [emission for emission in EMISSION.finditer(end) if "policy deny" in emission["verdicts"]]
    # A deadline would be five seconds.
    assert float(denied["ms"]) < 1000


def test_without_a_terminal_it_prints_plain_lines(transcript: str) -> None:
    assert "\x1b" not in transcript
    assert "\r" not in transcript


def test_terminated_in_the_middle_it_takes_its_processes_with_it() -> None:
    with demo() as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "redactor answers" in line:
                break
        running.terminate()
        running.communicate()
    assert running.returncode == 128 + signal.SIGTERM


def test_an_endpoint_without_a_model_name_is_one_plain_error() -> None:
    with demo(OPENAI_BASE_URL="http://127.0.0.1:1/v1") as running:
        _, err = running.communicate()
    assert running.returncode == 1
    assert "OPENAI_MODEL is not set" in err
    assert "Traceback" not in err


def test_a_model_that_cannot_be_reached_is_one_plain_error() -> None:
    with demo(OPENAI_BASE_URL="http://127.0.0.1:1/v1", OPENAI_MODEL="any") as running:
        _, err = running.communicate()
    assert running.returncode == 1
    assert "the model call failed: APIConnectionError" in err
    assert "Traceback" not in err


@pytest.mark.anyio
async def test_a_real_endpoint_takes_the_place_of_the_script() -> None:
    def stubborn(messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        """Asks for two first-class seats in one message, then gives up."""
        last = messages[-1]
        if last.role == "tool":
            return Reply("I give up: " + last.text)
        return Reply(tool_calls=[ToolCall("book_ticket", {"train": "301", "seat_class": "FIRST"})] * 2)

    def run(base_url: str) -> tuple[int, str, str]:
        with demo(OPENAI_BASE_URL=base_url, OPENAI_MODEL="stubborn", OPENAI_API_KEY="a key") as running:
            out, err = running.communicate()
        return running.returncode, out, err

    scripts: dict[str, Script] = {"stubborn": stubborn}
    async with scripted_endpoint(scripts) as base_url:
        status, out, err = await anyio.to_thread.run_sync(run, base_url)
    assert (status, err) == (0, "")
    assert f"the model is stubborn at {base_url}" in out
    reasons = [why.partition(":")[0] for why in DENIED.findall(out)]
    assert reasons == ["first class needs a manager's approval"] * 2 + ["host_error"] * 2
    assert re.findall(r"Really booked so far: (.*)", out) == ["nothing", "nothing"]
