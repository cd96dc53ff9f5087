"""How a worker shows itself to ``nats`` and other tools: ``$SRV`` answers with the ADR-32 types."""

from __future__ import annotations

import importlib.metadata
import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from hookbus import BodyTooLarge, BusDown, Connection, Message, envelope
from hookbus.connection import Serving

logger = logging.getLogger("hookbus.worker")

_TYPE: Final = "io.nats.micro.v1."
_INBOX: Final = "_INBOX."
_VERBS: Final = ("PING", "INFO", "STATS")
#: What an interceptor may add to the statistics of one endpoint.
MAX_OFFERED_BYTES: Final = 65_536
_SEMVER: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?[.-]?([0-9A-Za-z-]*)")


#: The name of an endpoint for all points.
EVERY_POINT: Final = "intercept"


class Tally(msgspec.Struct):
    """What became of the questions of one subscription; times in nanoseconds."""

    name: str
    subject: str
    queue_group: str
    num_requests: int = 0
    num_errors: int = 0
    last_error: str = ""
    processing_time: int = 0
    #: Questions by what became of them: ``answered``, an error code, ``abandoned``, ``unanswerable``, ``unsent``.
    data: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def point(self) -> str | None:
        """The interception point; None where the subscription is for all of them."""
        return None if self.name == EVERY_POINT else self.name

    @property
    def average_processing_time(self) -> int:
        """The mean over the questions that the interceptor itself worked on."""
        ended = self.data["answered"] + self.data["500"] + self.data["abandoned"]
        return self.processing_time // ended if ended else 0

    def note_error(self, code: str, type_name: str) -> None:
        """Count one error answer."""
        self.num_errors += 1
        self.last_error = f"{code}:{type_name}"
        self.data[code] += 1


class Service:
    """One worker's answers to ``$SRV.PING``, ``INFO`` and ``STATS``, for all, by its name, and by its id.

    They go to an inbox and nowhere else: a worker publishes to no subject that somebody else has chosen
    (contract, section 1). ``metadata()`` is asked for every answer. ``offered(point)`` is an object that the
    interceptor adds to the ``data`` of an endpoint; for an endpoint of all points it is asked with None.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        id: str,
        metadata: Callable[[], Mapping[str, str]],
        tallies: Sequence[Tally],
        offered: Callable[[str | None], object] | None = None,
    ) -> None:
        self._connection = connection
        self._names = {"name": name, "id": id, "version": semantic_version()}
        self._metadata = metadata
        self._tallies = tallies
        self._offered = offered
        self._started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.patterns = [f"$SRV.{verb}{which}" for verb in _VERBS for which in ("", f".{name}", f".{name}.{id}")]

    def serve(self, on_refused: Callable[[str], None]) -> Serving:
        """Subscribe; ``on_refused`` is told each pattern that the server does not permit."""
        return self._connection.serve(self.patterns, "", self.receive, on_refused=on_refused)

    def receive(self, message: Message) -> None:
        """Answer one request. Never waits and never raises."""
        if not message.reply.startswith(_INBOX):
            return
        answer = {"PING": self._ping, "INFO": self._info, "STATS": self._stats}[message.subject.split(".")[1]]
        try:
            self._connection.publish(message.reply, msgspec.json.encode(answer()))
        except (BusDown, BodyTooLarge):
            # Whoever asked asks again; nothing waits for this answer.
            return

    @property
    def _identity(self) -> dict[str, object]:
        return {**self._names, "metadata": dict(self._metadata())}

    def _ping(self) -> dict[str, object]:
        return {"type": f"{_TYPE}ping_response", **self._identity}

    def _info(self) -> dict[str, object]:
        return {
            "type": f"{_TYPE}info_response",
            **self._identity,
            "description": "an AGENT-HOOKS-0.1 interceptor on hookbus",
            "endpoints": [
                {"name": tally.name, "subject": tally.subject, "queue_group": tally.queue_group, "metadata": {}}
                for tally in self._tallies
            ],
        }

    def _stats(self) -> dict[str, object]:
        return {
            "type": f"{_TYPE}stats_response",
            **self._identity,
            "started": self._started,
            "endpoints": [
                {
                    **msgspec.structs.asdict(tally),
                    "average_processing_time": tally.average_processing_time,
                    "data": {**self._offer(tally), **tally.data},
                }
                for tally in self._tallies
            ],
        }

    def _offer(self, tally: Tally) -> dict[str, object]:
        """Return what the interceptor adds; nothing where it raises, is no JSON object, or is too large."""
        if self._offered is None:
            return {}
        try:
            encoded = msgspec.json.encode(self._offered(tally.point))
            return (
                msgspec.json.decode(encoded, type=dict[str, object]) if len(encoded) <= MAX_OFFERED_BYTES else {}
            )
        except Exception as error:  # noqa: BLE001  # the interceptor's code, or no statistics of the worker are told
            logger.warning("service_stats raised %s", envelope.type_name(error))
            return {}


def semantic_version() -> str:
    """Return this package's version as a semantic version, which ``0.2.0rc1`` is not and ``0.2.0-rc1`` is."""
    parts = _SEMVER.match(importlib.metadata.version("hookbus"))
    if parts is None:
        return "0.0.0"
    major, minor, patch, rest = parts.groups()
    return f"{major}.{minor}.{patch or 0}" + (f"-{rest}" if rest else "")
