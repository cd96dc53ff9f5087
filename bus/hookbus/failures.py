"""The failure table: what each way of not getting a verdict becomes (contract, section 4).

Nothing in this table is a permit. A failure takes the failing interceptor's slot in the composition
(AGENT-HOOKS-0.1 §6.3), with the reserved reason and the sentence given here.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

TIMEOUT: Final = "host_error:interceptor_timeout"
FAILED: Final = "host_error:interceptor_failed"
VERDICT_INVALID: Final = "host_error:verdict_invalid"
CONTEXT_INVALID: Final = "host_error:context_invalid"


class Failure(Enum):
    """One class of failure: its reserved reason and the plain sentence a person reads."""

    SILENT = ("silent", TIMEOUT, "{name} did not answer by the deadline")
    FORGED = ("forged", TIMEOUT, "{name} did not answer by the deadline; an answer that did not check was dropped")
    EXPIRED = ("expired", TIMEOUT, "the question had expired when a worker of {name} took it")
    ABSENT = ("absent", FAILED, "no worker of {name} is subscribed")
    BUS_DOWN = ("bus_down", FAILED, "the bus cannot be reached, so {name} was not asked or not heard")
    REFUSED = ("refused", FAILED, "the server does not permit this agent to ask {name}")
    OPEN = ("open", FAILED, "this agent has too much in flight to ask {name}")
    BREAKER = ("open", FAILED, "{name} was silent again and again, so it is asked only now and then")
    BUSY = ("busy", FAILED, "the workers of {name} are at their limit")
    RAISED = ("raised", FAILED, "{name} raised instead of deciding")
    REJECTED = ("rejected", FAILED, "a worker of {name} refused the question as malformed")
    MALFORMED = ("malformed", VERDICT_INVALID, "the answer of {name} is not a verdict")
    UNSENDABLE = ("unsendable", CONTEXT_INVALID, "the context cannot be sent")

    def __init__(self, label: str, reason: str, text: str) -> None:
        self.label = label
        self.reason = reason
        self._text = text

    def sentence(self, interceptor: str) -> str:
        """Return the class and one plain sentence, as they go into messages, logs and metrics."""
        return f"{self.label}: {self._text.format(name=repr(interceptor))}"


#: What a worker's error code becomes. Any code not listed here is ``RAISED``.
BY_ERROR_CODE: Final[dict[str, Failure]] = {
    "400": Failure.REJECTED,
    "408": Failure.EXPIRED,
    "429": Failure.BUSY,
    "500": Failure.RAISED,
}
