"""The code of docs/agent-framework.md does what the page says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.deployment import Deployment

from .scripted import ScriptedChatClient, calls, says

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:.*experimental")]

PAGE = Path(__file__).parents[2] / "docs" / "agent-framework.md"
FIRST = {"train": "Mar del Plata 305", "seat_class": "first"}


@pytest.fixture
def page() -> dict[str, Any]:
    """What the page's Python blocks define, executed in order."""
    defined: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), defined)
    return defined


@pytest.fixture
async def policy(page: dict[str, Any], nats_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """The page's policy, answering where the page's ``hookbus.connect()`` will ask."""
    deployment = Deployment(nats_url)
    deployment.remote("policy", page["TravelPolicy"]())
    monkeypatch.setenv("HOOKBUS_URL", nats_url)
    monkeypatch.setenv("HOOKBUS_TENANT", deployment.bus.settings.tenant)
    async with deployment:
        yield


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
