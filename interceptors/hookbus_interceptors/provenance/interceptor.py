"""What a call acts on must come from the user, or from a source that the policy trusts.

What it stops: an instruction that the agent read somewhere and obeys. Once the agent has read what the policy does
not trust, a call that does more than read goes on only if the user's words ask for such an action and every value
that it acts on is theirs, or a whole field of a record that was looked up for them. A value that is not is for a
person to decide, and with no word of the user's for such an action it is denied.

What it cannot: see that a text which the user asked for says the wrong thing, or tell two values apart that are
both the user's. How it fails: a host that shows no conversation gives no value a source, and is asked about all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from hookbus_interceptors.arguments import Argument, arguments_of
from hookbus_interceptors.authoring import (
    InputContext,
    PostToolCallContext,
    PreToolCallContext,
    Verdict,
    allow,
    deny,
    escalate,
    input,
    post_tool_call,
    pre_tool_call,
)
from hookbus_interceptors.authoring.context_views import Context, ToolCall
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.conversation import Conversation, conversation_of
from hookbus_interceptors.effects import Kind, kind_of, only_reads
from hookbus_interceptors.provenance.configuration import ProvenanceConfiguration
from hookbus_interceptors.provenance.request import asks_for, hands_over
from hookbus_interceptors.provenance.support import Source, Support
from hookbus_interceptors.tool_names import is_plain_ascii, matches

#: Labels what a tool gave that the policy does not trust, and all that derives from it.
UNTRUSTED: Final = "provenance:untrusted"
#: Labels an input that is not the user's own word, though it stands in their place.
NOT_THE_USER: Final = "provenance:not-the-user"
#: Where in a result its being a refusal is looked for.
_REFUSAL: Final = 300
#: So many characters stand twice in one conversation only if one is taken from the other.
_DISTINCT: Final = 4
#: How many values are told to a person.
_TOLD: Final = 4


class _Finding(msgspec.Struct, frozen=True):
    """A value that is not the user's, and the tool that gave it, if one did."""

    place: str
    value: str | int | float | bool | None
    holder: str | None
    #: Whether the user's own words looked up what holds it.
    pointed_at: bool

    @property
    def was_read(self) -> bool:
        """Whether it was taken word for word from what the agent read, and cannot be there by chance."""
        return self.holder is not None and isinstance(self.value, str) and len(self.value) >= _DISTINCT

    def __str__(self) -> str:
        return f"{self.place} ({f'from {self.holder}' if self.holder else 'from nowhere that can be seen'})"


class Provenance(Configured[ProvenanceConfiguration]):
    """Denies, or has a person decide, a call that acts on what the user has not given."""

    @input
    def received(self, context: InputContext) -> Verdict:
        """Label an input that did not come from the user: an external event, or what another agent was told."""
        derived = context.input.role == "external" or UNTRUSTED in self._labels(context)
        return allow(labels=[NOT_THE_USER, UNTRUSTED] if derived else [])

    @post_tool_call
    def given(self, context: PostToolCallContext) -> Verdict:
        """Label what a tool gave, unless the policy trusts it."""
        trusted = matches(context.tool_call.name, self.configuration.trusted_tools)
        return allow(labels=[] if trusted else [UNTRUSTED])

    @pre_tool_call
    def called(self, context: PreToolCallContext) -> Verdict:
        """Judge a call that does more than read by where its values come from."""
        call, settings = context.tool_call, self.configuration
        if only_reads(call.name, call.args, also=settings.reading_tools, verbs=settings.reading_verbs):
            return allow()
        conversation = conversation_of(context.raw)
        labels = self._labels(context)
        if conversation.shown and UNTRUSTED not in labels and not self._has_read(conversation):
            return allow()
        support = Support(conversation, settings, heard=NOT_THE_USER not in labels)
        kind = kind_of(call.name, settings.kinds) if is_plain_ascii(call.name) else None
        findings = list(self._findings(call, kind, support))
        if not conversation.shown:
            return self._ask(call, "the host does not show who said what", findings)
        if findings and self._was_refused(call, findings, conversation):
            return deny("provenance:refused-before", _message(call, "this has been refused already", findings))
        sources = set(map(support.of_words, arguments_of(call.args))) - {Source.OTHER}
        tied = bool(sources) or any(finding.pointed_at for finding in findings)
        if kind is None or asks_for(kind, support.said) or hands_over(settings.delegated_by, support.said):
            if not tied and any(finding.was_read for finding in findings):
                return self._refuse(call, "untied", "nothing in it is the user's", findings, settings.untied)
            if findings or not tied or kind is None:
                return self._ask(call, "the user has not given what it acts on", findings)
            return allow()
        if not findings and Source.USER in sources:
            return self._ask(call, "the user named what it acts on but did not ask for it", findings)
        return self._refuse(call, "unasked", "nothing that the user said asks for it", findings, settings.unasked)

    def _labels(self, context: Context) -> frozenset[str]:
        return frozenset(label for name in self.configuration.namespaces for label in context.source_labels(name))

    def _has_read(self, conversation: Conversation) -> bool:
        if conversation.unread:
            return True
        return any(not matches(given.tool, self.configuration.trusted_tools) for given in conversation.given)

    def _findings(self, call: ToolCall, kind: Kind | None, support: Support) -> Iterator[_Finding]:
        """Yield the values that the call acts on and that nobody whom the policy trusts has given."""
        irrevocable = kind is None or kind.destructive
        accepted = {Source.USER, Source.FOUND} if irrevocable else {Source.USER, Source.FOUND, Source.RECORD}
        for argument in self._acted_on(call):
            if support.of(argument) not in accepted and not self._is_small(argument):
                holders = support.holders_of(argument.value)
                yield _Finding(
                    argument.place,
                    argument.value,
                    holders[0].tool if holders else None,
                    any(map(support.was_pointed_at, holders)),
                )

    def _acted_on(self, call: ToolCall) -> Iterator[Argument]:
        settings = self.configuration
        for argument in arguments_of(call.args):
            if argument.value in (None, "") or isinstance(argument.value, bool):
                continue
            if not any(
                fnmatchcase(argument.name, name) for name in (*settings.content_names, *settings.form_names)
            ):
                yield argument

    def _is_small(self, argument: Argument) -> bool:
        """Whether it is an amount that is too small to ask about; whom it goes to is another argument."""
        named = any(fnmatchcase(argument.name, pattern) for pattern in self.configuration.amount_names)
        value = argument.value
        return named and isinstance(value, int | float) and 0 <= value <= self.configuration.small_amount

    def _was_refused(self, call: ToolCall, findings: Sequence[_Finding], conversation: Conversation) -> bool:
        """Whether a call with the same values has been refused in this conversation."""
        refused = re.compile(self.configuration.refused_text)
        return any(
            refused.search(given.text[:_REFUSAL])
            and not only_reads(given.tool, given.args)
            and {finding.value for finding in findings}
            <= {argument.value for argument in arguments_of(given.args) if argument.value is not None}
            for given in conversation.given
        )

    def _ask(self, call: ToolCall, why: str, findings: Sequence[_Finding]) -> Verdict:
        if self.configuration.unsupported == "deny":
            return deny("provenance:unsupported", _message(call, why, findings))
        return escalate(
            "provenance:unsupported",
            f"{_message(call, why, findings)} Approve if this is what you want.",
            parameters={"tool": call.name, "arguments": [finding.place for finding in findings]},
        )

    def _refuse(self, call: ToolCall, reason: str, why: str, findings: Sequence[_Finding], how: str) -> Verdict:
        if how == "deny":
            return deny(f"provenance:{reason}", _message(call, why, findings))
        return self._ask(call, why, findings)


_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]{1,64}")


def _message(call: ToolCall, why: str, findings: Sequence[_Finding]) -> str:
    name = call.name if _TOOL_NAME.fullmatch(call.name) else "the tool"
    told = ", ".join(map(str, findings[:_TOLD]))
    return f"{name}: {why}{f': {told}' if told else ''}."
