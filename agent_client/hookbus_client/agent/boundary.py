"""Where code that is not ours may raise anything: the only module here that catches ``Exception``.

Each boundary maps whatever comes to one outcome: a tool's error becomes text for the model, a
watcher's error becomes nothing, a provider's error becomes :class:`ModelFailed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import ValidationError

from hookbus_client.agent.errors import ModelFailed


async def tool_error(call: Callable[[], Awaitable[Any]]) -> tuple[Any, str | None]:
    """Return ``(value, None)``, or ``(None, text)`` with the text of what the tool raised.

    The text is the tool's own output and goes where its result would have gone: through
    ``post_tool_call`` to the model, never into a log.
    """
    try:
        return await call(), None
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        return None, "; ".join(f"{'.'.join(map(str, f['loc']))}: {f['msg']}" for f in faults)
    except Exception as error:  # noqa: BLE001 - a tool may raise anything; the model reads it
        return None, f"{type(error).__name__}: {error}"


def watch(watcher: Callable[[Any], object], event: Any) -> None:
    """Show *event* to *watcher*; whatever it raises changes nothing."""
    with suppress(Exception):
        watcher(event)


@contextmanager
def provider_errors() -> Iterator[None]:
    """Turn whatever a provider's client raises into :class:`ModelFailed`, with the cause chained."""
    try:
        yield
    except ModelFailed:
        raise
    except Exception as error:
        raise ModelFailed(type(error).__name__) from error
