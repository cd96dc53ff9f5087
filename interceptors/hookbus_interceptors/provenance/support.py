"""Who gave a value: the user and what speaks for them, a record that was looked up, or somebody else."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final

from hookbus.codec import Json
from hookbus_interceptors.amounts import number_in
from hookbus_interceptors.arguments import Argument
from hookbus_interceptors.conversation import Conversation, Given
from hookbus_interceptors.destinations import Destination, Site, destinations_in, only_mentions
from hookbus_interceptors.provenance.configuration import ProvenanceConfiguration
from hookbus_interceptors.provenance.dates import Day, days_in, without_days
from hookbus_interceptors.records import comparable, fields_in
from hookbus_interceptors.tool_names import matches

_NUMBER: Final = re.compile(r"(?<![\w.,])-?\d+(?:[ ,.']\d{3})*(?:[.,]\d+)?(?![\w])")
_QUOTES: Final = str.maketrans("‘’‚‛“”„‟–—", "''''\"\"\"\"--")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
#: Words that are in every text: nobody has given them.
_EVERYWHERE: Final = frozenset(
    re.findall(r"\w+", "a an the all any and or of to in on at for from by it is my me i")
)
#: Days stand at the beginning of a value.
_LONGEST_DAY: Final = 40


class Source(Enum):
    """Where a value comes from, most trusted first."""

    USER = "the user"
    #: A whole field of a record that the user's own words looked up.
    FOUND = "a record found by the user's words"
    #: A whole field of another record.
    RECORD = "a record"
    #: Nobody whom the policy trusts.
    OTHER = "elsewhere"


class Support:
    """Judges the values of one call against the conversation that it comes from.

    *heard* is whether the user's own messages are really the user's.
    """

    def __init__(
        self, conversation: Conversation, configuration: ProvenanceConfiguration, *, heard: bool = True
    ) -> None:
        self._settings = configuration
        self._given = conversation.given
        #: What the people have said who run the agent and use it.
        self.said = [*(conversation.user if heard else ()), *conversation.system]

    def of(self, argument: Argument) -> Source:
        """Return the most trusted source of the argument's value."""
        value = argument.value
        if isinstance(value, str):
            named = self._named(argument.name, self._settings.address_names)
            destinations = set(destinations_in(value, is_address=named))
            if destinations and not only_mentions(value):
                return Source.USER if all(map(self._knows, destinations)) else Source.OTHER
            if (day := self._day(value)) is not None:
                return Source.USER if self._may_be(day) else Source.OTHER
            if _CLOCK.fullmatch(value.strip()):
                return Source.USER
        number = number_in(value)
        if number is not None and self._named(argument.name, self._settings.amount_names):
            return Source.USER if number in self._numbers else Source.OTHER
        if self._says(value):
            return Source.USER
        sought = comparable(value)
        fields = [self._found_by_user(given) for given, found in self._records if sought in found]
        return Source.FOUND if any(fields) else Source.RECORD if fields else Source.OTHER

    def of_words(self, argument: Argument) -> Source:
        """Return the source of the value, which says nothing if it is only a figure or a day."""
        value = argument.value
        if not isinstance(value, str) or self._day(value) is not None or _CLOCK.fullmatch(value.strip()):
            return Source.OTHER
        return self.of(argument)

    def holders_of(self, value: Json) -> list[Given]:
        """Return what tools gave with *value* somewhere in it, the last first."""
        sought = re.compile(rf"(?<!\w){re.escape(_plain(comparable(value)))}(?!\w)")
        return [given for given, text in reversed(self._texts) if sought.search(text)]

    def was_pointed_at(self, given: Given) -> bool:
        """Whether the user's own words are among the arguments that it was looked up with; a day is not enough."""
        return any(
            self._day(value) is None and self._said_anywhere(value)
            for value in given.args.values()
            if isinstance(value, str) and len(value) > 2
        )

    @cached_property
    def _texts(self) -> list[tuple[Given, str]]:
        return [(given, _plain(given.text)) for given in self._given]

    @cached_property
    def _records(self) -> list[tuple[Given, frozenset[str]]]:
        """What tools gave that may hold records, with the fields of each."""
        settings = self._settings
        return [
            (given, fields_in(given.text, settings.content_names))
            for given in self._given
            if not matches(given.tool, settings.document_tools)
        ]

    @cached_property
    def _trusted(self) -> list[str]:
        """Everything that names a destination with the user's authority."""
        trusted = self._settings.trusted_tools
        return self.said + [
            given.text for given in self._given if matches(given.tool, trusted) and self._asked_by_user(given)
        ]

    @cached_property
    def _destinations(self) -> frozenset[Destination]:
        return frozenset(found for text in self._trusted for found in destinations_in(text))

    @cached_property
    def _words(self) -> str:
        return "\n".join(map(_plain, self._trusted))

    @cached_property
    def _words_without_days(self) -> str:
        return "\n".join(without_days(_plain(text)) for text in self._trusted)

    @cached_property
    def _numbers(self) -> frozenset[float]:
        found = (number_in(match[0]) for text in self.said for match in _NUMBER.finditer(without_days(text)))
        return frozenset(number for number in found if number is not None)

    @cached_property
    def _days(self) -> frozenset[Day] | None:
        """The days that the user named; None where there is none, or other words for days, to go by."""
        each = [days_in(text) for text in self.said]
        named = frozenset[Day]().union(*(days.named for days in each))
        return None if not named or any(days.relative for days in each) else named

    def _day(self, value: str) -> Day | None:
        found = days_in(value[:_LONGEST_DAY]).named if len(value) <= _LONGEST_DAY else ()
        return next(iter(sorted(found)), None)

    def _may_be(self, day: Day) -> bool:
        return self._days is None or any(day.meets(named) for named in self._days)

    def _knows(self, destination: Destination) -> bool:
        if destination in self._destinations:
            return True
        return isinstance(destination, Site) and any(
            isinstance(each, Site) and each.holds(destination) for each in self._destinations
        )

    def _says(self, value: Json) -> bool:
        """Whether the value stands in the user's words, as a word or a phrase of its own."""
        sought = _plain(comparable(value))
        if sought in _EVERYWHERE:
            return False
        text = self._words_without_days if sought.isdecimal() else self._words
        return bool(sought) and re.search(rf"(?<!\w){re.escape(sought)}(?!\w)", text) is not None

    def _asked_by_user(self, given: Given) -> bool:
        values = [value for value in given.args.values() if value not in (None, "", [], {})]
        return bool(values) and all(
            self._said_anywhere(item)
            for value in values
            for item in (value if isinstance(value, list) else [value])
        )

    def _found_by_user(self, given: Given) -> bool:
        texts = [value for value in given.args.values() if isinstance(value, str) and len(value) > 2]
        return any(self._said_anywhere(value) for value in texts)

    def _said_anywhere(self, value: Json) -> bool:
        sought = _plain(comparable(value)) if not isinstance(value, dict | list) else ""
        if not sought:
            return False
        if (day := self._day(sought)) is not None:
            return self._days is not None and self._may_be(day)
        said = "\n".join(map(_plain, self.said))
        return re.search(rf"(?<!\w){re.escape(sought)}(?!\w)", said) is not None

    @staticmethod
    def _named(name: str, patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold().split())
