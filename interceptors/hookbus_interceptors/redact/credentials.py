"""Finds secrets: tokens by the detectors of ``detect-secrets`` and a few more, and what is called a password."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from fnmatch import translate
from typing import Any, Final

import msgspec
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

from hookbus_interceptors.redact.found import Found

#: Detectors look at this much at a time, each piece overlapping the one before by half: some of their patterns
#: take time that grows with the square of what they look at.
_PIECE_CHARACTERS: Final = 512
#: What must stand in a piece for a detector to find anything there: in any case what is in lower case here.
_SIGNS: Final = {
    "ArtifactoryDetector": ("AKC", "AP"),
    "AWSKeyDetector": ("AKIA", "ASIA", "A3T", "ABIA", "ACCA", "aws"),
    "AzureStorageKeyDetector": ("accountkey=",),
    "BasicAuthDetector": ("://",),
    "CloudantDetector": ("cl",),
    "GitHubTokenDetector": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "GitLabTokenDetector": (
        "glpat-",
        "gldt-",
        "glft-",
        "glsoat-",
        "glrt-",
        "GR1348941",
        "glcbt-",
        "glimt-",
        "glptt-",
        "glagent-",
        "gloas-",
    ),
    "IbmCloudIamDetector": ("key", "pwd", "pass", "token"),
    "IbmCosHmacDetector": ("secret",),
    "JwtTokenDetector": ("eyJ",),
    "MailchimpDetector": ("-us",),
    "NpmDetector": (":_authtoken",),
    "OpenAIDetector": ("T3BlbkFJ",),
    "PypiTokenDetector": ("pypi-",),
    "SendGridDetector": ("SG.",),
    "SlackDetector": ("xox", "hooks.slack"),
    "SoftlayerDetector": ("softlayer", "sl"),
    "SquareOAuthDetector": ("sq0csp",),
    "StripeDetector": ("k_live_",),
    "TwilioKeyDetector": ("AC", "SK"),
}
#: Those that find nothing where no such run of characters stands, as in most prose.
_LONG: Final = frozenset(
    each + "Detector"
    for each in ["AWSKey", "Cloudant", "DiscordBotToken", "GitHubToken", "GitLabToken", "IbmCloudIam",
                 "IbmCosHmac", "Mailchimp", "OpenAI", "PypiToken", "SendGrid", "Softlayer", "Stripe",
                 "TelegramBotToken", "TwilioKey"]
)  # fmt: skip
#: Of all but what is in no token in ASCII: looked for many times as fast as ``\w`` is.
_RUN: Final = re.compile(r"[^\x00-*,.:-@\[-^`{-\x7f]{20}")
#: An address is no secret, and of a private key more than its first line is to go.
_LEFT_OUT: Final = frozenset({"IPPublicDetector", "PrivateKeyDetector"})
#: Tokens that have a beginning of their own, of services that the detectors do not know.
_TOKENS: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:sk-(?:ant|proj|svcacct|or-v1)-[\w-]{20,200}|AIza[\w-]{35}|hf_[0-9A-Za-z]{30,60}"
    r"|github_pat_\w{22,255}|xapp-\d-[\w-]{20,200}|S[ACNOUX][A-Z2-7]{56}|AGE-SECRET-KEY-1[0-9A-Z]{58}"
    r"|dop_v1_[0-9a-f]{64}|shp(?:at|ss)_[0-9a-fA-F]{32}|ya29\.[\w-]{20,400}|rk_live_\w{20,200})"
)
_BEARER: Final = re.compile(r"\b(?:bearer|basic)\s{1,3}([\w.~+/-]{12,4096}=*)", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
#: A detector may find the beginning of a token only; what follows without a break belongs to it.
_REST: Final = re.compile(r"(?:[\w.+/=-]*[\w=])?")
#: A pattern that need not ignore case passes over most of a text many times as fast.
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_VALUE: Final = (
    r"[\"'\]]{0,2}(?:\s{0,3}(?:=>|:=|={1,3}|:)\s{0,3}|\s{1,3}is\s{1,3}(?=\S*[\d!@#$%^&*]))"
    r"(?:\\?\"(?P<double>[^\"\\\n]{3,512})\\?\"|'(?P<single>[^'\n]{3,512})'|(?P<bare>[^\s\"',;()\[\]{}<>]{3,512}))"
)
#: What stands for a secret that is elsewhere, or for none.
_PLACEHOLDER: Final = re.compile(
    r"null|none|nil|true|false|undefined|required|optional|string|str|redacted|x+|\*+|\.+|\$\w*|%\w+%|bearer|basic",
    re.IGNORECASE,
)


class _Detector(msgspec.Struct, frozen=True):
    """One of ``detect-secrets``, and what must be there for it to find anything."""

    patterns: tuple[re.Pattern[str], ...]
    signs: tuple[str, ...] = ()
    long: bool = False

    @classmethod
    def of(cls, name: str, patterns: Iterable[re.Pattern[str]]) -> _Detector:
        return cls(tuple(patterns), _SIGNS.get(name, ()), name in _LONG)


class Credentials:
    """Finds secrets. *names* are patterns of what is a secret when it is called so."""

    def __init__(self, names: Iterable[str]) -> None:
        parts = "|".join(
            re.escape(each.strip("*")).replace("_", "[ _-]?") for each in sorted(names, key=len, reverse=True)
        )
        self._assigned = re.compile(rf"(?:{parts}){_VALUE}") if parts else None
        self._names = re.compile("|".join(translate(each) for each in names) or r"(?!)")
        kinds: Iterable[type[Any]] = get_mapping_from_secret_type_to_class().values()
        detectors: list[RegexBasedDetector] = [
            kind() for kind in kinds if issubclass(kind, RegexBasedDetector) and kind.__name__ not in _LEFT_OUT
        ]
        self._detectors = [_Detector.of(type(each).__name__, each.denylist) for each in detectors]
        self._detectors_without_run = [each for each in self._detectors if not each.long]

    def find(self, text: str, name: str) -> Iterator[Found]:
        """Yield the secrets in *text*. See :class:`Finder`."""
        if self._names.match(name) and text.strip() and not _PLACEHOLDER.fullmatch(text):
            yield Found(0, len(text), "SECRET", 0)
            return
        spans = [match.span() for match in _TOKENS.finditer(text)]
        spans += [match.span(1) for match in _BEARER.finditer(text)]
        spans += _private_keys(text)
        spans += self._assignments(text)
        spans += self._detected(text)
        yield from (Found(start, end, "SECRET", 0) for start, end in spans)

    def _assignments(self, text: str) -> Iterator[tuple[int, int]]:
        for match in self._assigned.finditer(text.translate(_LOWER)) if self._assigned is not None else ():
            group = match.lastgroup
            if group is not None and not _PLACEHOLDER.fullmatch(match[group]):
                yield match.span(group)

    def _detected(self, text: str) -> Iterator[tuple[int, int]]:
        reached = 0
        for offset, piece in _pieces(text):
            patterns = (each for detector in self._that_may_find(piece) for each in detector.patterns)
            for match in (match for pattern in patterns for match in pattern.finditer(piece)):
                # Where a pattern has groups, the secret is one of them.
                group = next((each for each in range(1, match.re.groups + 1) if match[each]), 0)
                start, end = (offset + place for place in match.span(group))
                if end > reached:
                    rest = _REST.match(text, end)
                    reached = rest.end() if rest else end
                    yield _trimmed(text, start, reached)

    def _that_may_find(self, piece: str) -> list[_Detector]:
        """Return the detectors without those that find nothing in *piece* for certain."""
        has = f"{piece}\n{piece.casefold()}".__contains__
        detectors = self._detectors if _RUN.search(piece) else self._detectors_without_run
        return [each for each in detectors if not each.signs or any(map(has, each.signs))]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the quotes and spaces that a pattern demands around it."""
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and text[end - 1] in " \t\r\n\"'`,;":
        end -= 1
    return start, end


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    for start in range(0, max(1, len(text) - _PIECE_CHARACTERS // 2), _PIECE_CHARACTERS // 2):
        yield start, text[start : start + _PIECE_CHARACTERS]


def _private_keys(text: str) -> Iterator[tuple[int, int]]:
    """Yield the private keys in *text*, to their ends, or to the text's own where they have none."""
    place = 0
    while begin := _PRIVATE_KEY.search(text, place):
        end = _KEY_END.search(text, begin.end())
        place = end.end() if end else len(text)
        yield begin.start(), place
