"""The code of docs/agent-framework.md does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from agent_hooks import InterceptionBlocked

from .scripted import ScriptedChatClient, calls, says

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:.*experimental")]

PAGE = Path(__file__).parents[2] / "docs" / "agent-framework.md"
FIRST = {"train": "Mar del Plata 305", "seat_class": "first"}
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
(COMMAND,) = re.findall(r"^    hookbus (worker run .*)$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's Python blocks define, executed in order."""
    assert len(BLOCKS) == 3
    defined: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


@pytest.fixture
def at_home(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``hookbus.connect()`` connects to a tenant of the test's own, where nobody answers."""
    monkeypatch.setenv("HOOKBUS_URL", nats_url)
    monkeypatch.setenv("HOOKBUS_TENANT", f"t{uuid4().hex}")


@pytest.fixture(scope="module")
def policys_tenant(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page's policy answers, run by the page's command in a process of its own."""
    tenant = f"t{uuid4().hex}"
    folder = tmp_path_factory.mktemp("policy")
    (folder / "policy.py").write_text(BLOCKS[0], "utf-8")
    command = [Path(sysconfig.get_path("scripts")) / "hookbus", *COMMAND.split()]
    environment = {**os.environ, "HOOKBUS_URL": nats_url, "HOOKBUS_TENANT": tenant}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        yield tenant
        process.terminate()
        process.communicate()
    assert process.returncode == 0


@pytest.fixture
def policy(at_home: None, policys_tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``hookbus.connect()`` connects to where the policy answers."""
    monkeypatch.setenv("HOOKBUS_TENANT", policys_tenant)


async def test_second_class_is_booked(page: dict[str, Any], policy: None) -> None:
    client = ScriptedChatClient([calls("book_ticket", {**FIRST, "seat_class": "second"}), says("Done.")])

    assert "Done." in await page["book"](client, "Book me a seat")
    assert client.read_results() == ["booked Mar del Plata 305 in second"]


async def test_first_class_is_refused_without_a_manager(page: dict[str, Any], policy: None) -> None:
    client = ScriptedChatClient([calls("book_ticket", FIRST), says("That needs a manager.")])

    await page["book"](client, "Book me the best seat")
    assert "first_class_needs_a_manager" in client.read_results()[0]


@pytest.mark.parametrize(
    ("answer", "read"), [(True, "booked Mar del Plata 305 in first"), (False, "manager_refused")]
)
async def test_a_manager_sees_the_arguments_and_decides(
    page: dict[str, Any], policy: None, answer: bool, read: str
) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def decide(reason: str, arguments: dict[str, Any]) -> bool:
        seen.append((reason, arguments))
        return answer

    client = ScriptedChatClient([calls("book_ticket", FIRST), says("Done.")])
    await page["book"](client, "Book me the best seat", page["Manager"](decide))

    assert seen == [("first_class_needs_a_manager", FIRST)]
    assert read in client.read_results()[0]


async def test_where_no_policy_answers_nothing_is_booked_and_the_block_says_why(
    page: dict[str, Any], at_home: None
) -> None:
    with pytest.raises(InterceptionBlocked) as blocked:
        await page["book"](ScriptedChatClient([]), "Book me a seat")

    assert blocked.value.result.verdict.message == "absent: no worker of 'policy' is subscribed"
