"""Where data can go, found in text whatever it is called: sites, mailboxes, bank accounts, telephone numbers.

Found generously: what only might be a destination is one, and where programs read an address in two ways both are
given. What is found is canonical, so that two spellings of one destination are equal.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
import socket
import unicodedata
from collections.abc import Iterator
from typing import Final, TypeAlias
from urllib.parse import unquote

import idna
import msgspec

#: Schemes whose addresses browsers read with any number of slashes, backslashes included, and their ports.
WEB_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
#: The name of somebody beside their address has no more words than this.
_NAME_WORDS: Final = 6
#: How often an address is unquoted in search of another one inside it.
_NESTED: Final = 3


class Site(msgspec.Struct, frozen=True):
    """A place on a network. ``host`` is lower case, in its ASCII form, and empty where the scheme has none."""

    scheme: str
    host: str
    port: int | None
    path: str

    def holds(self, other: Site) -> bool:
        """Whether *other* is this place or below it, on the same host and port. The scheme does not matter."""
        below = self.path.rstrip("/") + "/"
        return (self.host, self._port) == (other.host, other._port) and (other.path + "/").startswith(below)

    @property
    def _port(self) -> int | None:
        return None if self.port in (80, 443) else self.port

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The IP address that the host is written as, in any form that the system's own resolver reads."""
        try:
            found = ipaddress.ip_address(self.host)
        except ValueError:
            if not re.fullmatch(r"[0-9a-fx.]+", self.host) or not self.host[0].isdigit():
                return None
            try:
                # Reads 127.1, 0x7f000001, 2130706433 and 0177.0.0.1, as what makes the connection would.
                return ipaddress.IPv4Address(socket.inet_aton(self.host))
            except OSError:
                return None
        return found


class Mailbox(msgspec.Struct, frozen=True):
    """A mailbox, in lower case."""

    address: str

    @property
    def domain(self) -> str:
        """What follows the ``@``, in its ASCII form."""
        return ascii_host(self.address.rpartition("@")[2])


class Account(msgspec.Struct, frozen=True):
    """A bank account in the form of an IBAN, without spaces; whether one exists is not asked."""

    iban: str


class Phone(msgspec.Struct, frozen=True):
    """A telephone number in international form: ``+`` and digits."""

    number: str


Destination: TypeAlias = Site | Mailbox | Account | Phone

_URL: Final = re.compile(
    r"(?:\b(?P<web>https?|wss?|ftp):[\\/]*|\b(?P<scheme>[a-z][a-z0-9+.-]{1,30})://)(?P<rest>[^\s<>\"'`{}|^]*)",
    re.IGNORECASE,
)
_BARE: Final = re.compile(
    r"(?<![\w@.-])(?P<host>(?:[^\W_](?:[\w-]{0,62}\.)){1,8}(?P<top>[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})\.?)"
    r"(?P<tail>(?::\d{1,5})?(?:[/?#\\][^\s<>\"'`{}|^]*)?)(?![\w@])",
    re.IGNORECASE,
)
_QUAD: Final = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)(?P<tail>(?::\d{1,5})?(?:/[^\s<>\"'`{}|^]*)?)"
)
_MAIL: Final = re.compile(r"[^\s<>()\[\]\\,;:\"'@=]{1,64}@(?:[^\W_][\w-]{0,62}\.){1,8}[^\W_][\w-]{1,62}")
_IBAN: Final = re.compile(
    r"(?<![^\W_])(?:[A-Z]{2}\d{2}[A-Z0-9]{11,30}|[A-Z]{2}\d{2}(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,3})?)"
    r"(?![^\W_])",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(r"(?<![\w+])\+\d(?:[ ().-]{0,2}\d){6,14}(?!\w)")
#: What ends a sentence, not an address.
_TRAILING: Final = ".,;:!?)]}»”’\"'"
#: Addresses that hold what they do instead of a place: refused as schemes.
_ACTIVE: Final = re.compile(r"\s*(javascript|vbscript|data|file|blob|about|jar|view-source):", re.IGNORECASE)

#: The last labels that make a word with dots in it a host, though nothing else says so. Others are known by
#: ``http://`` or ``www.``, or by the name of their argument.
BARE_TOP_LEVELS: Final = frozenset(
    re.findall(
        r"\w+",
        "com net org edu gov mil int info biz io ai app dev co me tv cc ly gg eu uk us de fr es it nl be ch at se"
        " no fi dk pl pt br ar mx cl ca au nz jp cn kr in ru ua tr za ie cz ro gr hu il ae xyz top site online"
        " club shop store tech cloud live link page pro icu fun space website ws to su onion example test",
    )
)


def destinations_in(text: str, *, is_address: bool = False, bare: bool = True) -> Iterator[Destination]:
    """Yield the destinations in *text*; one may come twice.

    With *is_address* the whole of it stands where an address belongs, so that a host needs no sign of being one.
    Without *bare* only what begins like ``http:`` is a site, unless *is_address*.
    """
    text = unicodedata.normalize("NFKC", text)
    for found in _MAIL.finditer(text):
        yield mailbox(found[0])
    for found in _IBAN.finditer(text):
        iban = re.sub(r"[ -]", "", found[0]).upper()
        # In lower case it is more often a digest than an account.
        if found[0].isupper() or is_iban(iban):
            yield Account(iban)
    for found in _PHONE.finditer(text):
        yield Phone("+" + re.sub(r"\D", "", found[0]))
    yield from sites_in(text, is_address=is_address, bare=bare)


def sites_in(text: str, *, is_address: bool = False, bare: bool = True, _depth: int = _NESTED) -> Iterator[Site]:
    """Yield the sites in *text*, and those inside the paths and queries of others."""
    if is_address:
        # Browsers and clients drop these inside an address.
        text = re.sub(r"[\t\r\n]", "", text).strip()
    if active := _ACTIVE.match(text):
        yield Site(active[1].casefold(), "", None, "")
    addresses = [(found.start(), found.end(), found) for found in _URL.finditer(text)]
    for _, _, found in addresses:
        scheme = (found["web"] or found["scheme"]).casefold()
        yield from _site(scheme, found["rest"], _depth)
    whole = is_address and bool(text) and not addresses and "@" not in text
    whole = whole and not active
    if whole and re.fullmatch(r"[\\/]{2}.+|[^\s\\/]+([\\/].*)?", text):
        yield from _site("", text.lstrip("\\/"), _depth)
    if whole or not bare:
        return
    inside = [range(start, end) for start, end, _ in addresses]
    for found in _QUAD.finditer(text):
        if not any(found.start() in span for span in inside):
            yield from _site("", found[0], _depth)
    for found in _BARE.finditer(text):
        if any(found.start() in span for span in inside):
            continue
        if found["host"].casefold().startswith("www.") or found["top"].casefold() in BARE_TOP_LEVELS:
            yield from _site("", found["host"] + found["tail"], _depth)
        # A full stop without a space after it ends a sentence as well: "ours.example.Then".
        ended, _, began = found["host"].rstrip(".").rpartition(".")
        if began.istitle() and ended.rpartition(".")[2] in BARE_TOP_LEVELS and "." in ended:
            yield from _site("", ended, _depth)


def only_mentions(text: str) -> bool:
    """Whether *text* is a text with destinations in it, and not the address of one with a name beside it."""
    rest = _MAIL.sub(" ", _URL.sub(" ", unicodedata.normalize("NFKC", text)))
    return len(re.findall(r"\w+", _IBAN.sub(" ", _BARE.sub(" ", rest)))) > _NAME_WORDS


def mailbox(text: str) -> Mailbox:
    """Return the mailbox that *text* is."""
    return Mailbox(unicodedata.normalize("NFKC", text).casefold().rstrip("."))


def is_iban(iban: str) -> bool:
    """Whether the check digits of *iban* (in capitals, without spaces) are right (ISO 7064, MOD 97-10)."""
    digits = "".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])
    return int(digits) % 97 == 1


def ascii_host(host: str) -> str:
    """Return *host* in lower case and in its ASCII form; one that has none stays as it is written."""
    host = unquote(host).casefold().rstrip(".")
    try:
        return host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError:
        return host


def _site(scheme: str, rest: str, depth: int) -> Iterator[Site]:
    rest = rest.rstrip(_TRAILING)
    # Whether a backslash ends the host depends on who reads the address.
    for form in {rest, rest.replace("\\", "/")}:
        authority = re.split(r"[/?#]", form, maxsplit=1)[0]
        host, port = _host_and_port(authority.rpartition("@")[2])
        path = posixpath.normpath(unquote(re.split(r"[?#]", form[len(authority) :], maxsplit=1)[0]) or "/")
        if host or scheme:
            yield Site(scheme, host, port, "/" + path.strip("/"))
    if depth:
        inner = unquote(rest)
        for nested in _URL.finditer(inner):
            yield from _site((nested["web"] or nested["scheme"]).casefold(), nested["rest"], depth - 1)
        if inner != rest:
            yield from sites_in(" ".join(re.split(r"[?&#=]", inner)[1:]), _depth=depth - 1)


def _host_and_port(authority: str) -> tuple[str, int | None]:
    if bracketed := re.match(r"\[([^\]]*)\](?::(\d+))?", authority):
        host, port = bracketed[1].partition("%")[0], bracketed[2]
    else:
        host, _, port = authority.partition(":")
    return ascii_host(host), int(port) if port and port.isdecimal() and len(port) < 6 else None
