"""What ``provenance`` trusts, which arguments it looks at, and what becomes of a value that nobody gave."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.effects import KINDS, READING_VERBS, Kind
from hookbus_interceptors.records import CONTENT_NAMES, DOCUMENT_TOOLS
from hookbus_interceptors.tool_names import ToolPatterns


class ProvenanceConfiguration(Configuration):
    """The settings of ``provenance``. The defaults ask about everything that they cannot place."""

    #: Tools whose results count as the user's own word when the user gave every argument of the call: an address
    #: book, a directory. Never one that shows what strangers wrote.
    trusted_tools: ToolPatterns = ()
    #: Tools that change nothing, beyond those whose name begins with a verb of ``reading_verbs``.
    reading_tools: ToolPatterns = ()
    reading_verbs: frozenset[str] = READING_VERBS
    #: Tools that give pages and documents: nothing in their results is a record, whatever it looks like.
    document_tools: ToolPatterns = DOCUMENT_TOOLS
    #: Arguments whose words are free, because whoever reads them decides; addresses in them are for ``egress``.
    content_names: tuple[str, ...] = CONTENT_NAMES
    #: Arguments that only say in which form.
    form_names: tuple[str, ...] = ("type", "*_type", "kind", "format", "mode", "sort*", "order", "*unit*",
                                   "currency", "language", "timezone", "priority", "color")  # fmt: skip
    #: Arguments that hold an address, so that a bare word in them is a host.
    address_names: tuple[str, ...] = ("*url*", "*uri*", "*link*", "*href*", "*host*", "*domain*", "*endpoint*",
                                      "*webhook*", "*website*")  # fmt: skip
    #: Arguments that say how much.
    amount_names: tuple[str, ...] = ("*amount*", "*price*", "*total*", "*sum", "*value", "*quantity*")
    #: How much may go to somebody whom the user named, although the user did not say how much.
    small_amount: float = Field(default=0, ge=0)
    #: Kinds of action by the words of tools' names, and the words that ask for each.
    kinds: dict[str, Kind] = Field(default_factory=lambda: dict(KINDS))
    #: Phrases by which a user hands over what is to be done; any action may then be asked about.
    delegated_by: tuple[str, ...] = ("follow the", "follow any", "instructions", "do the actions", "do the tasks",
                                     "do the todos", "do my todos", "do all the", "do everything", "do what",
                                     "do whatever", "actions specified", "act on", "take care of", "deal with",
                                     "as requested", "as described")  # fmt: skip
    #: What becomes of a call that nothing in the user's words asks for, with a value that is not theirs.
    unasked: Literal["deny", "escalate"] = "deny"
    #: What becomes of a call that the user may have asked for, with a value that is not theirs.
    unsupported: Literal["escalate", "deny"] = "escalate"
    #: What becomes of such a call when it has nothing of the user's in it, and nothing that they pointed at.
    untied: Literal["deny", "escalate"] = "deny"
    #: What a model reads of a call that was refused. The same call is then denied, and nobody is asked again.
    refused_text: str = r"\b(?:denied|refused|rejected)\b"
    #: Namespaces that source labels come back under (§5.4).
    namespaces: tuple[str, ...] = ("provenance", "hookbus")
