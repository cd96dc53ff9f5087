"""``egress``: where data may go, in any argument at any depth, whatever the tool calls it.

What it stops: a call of any tool, also of one that only reads, with a host, a mailbox or a bank account in it that
neither the configuration permits nor the user has named; private and link-local addresses in every spelling, names
that resolve to one, schemes and ports that are not permitted, addresses inside other addresses. What it cannot:
data that leaves through a destination that is permitted, and what a tool does with an encoded argument. How it
fails: a name that cannot be resolved in time denies, and so does everything unforeseen.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

import msgspec
from pydantic import Field

from hookbus_interceptors.arguments import Argument, arguments_of
from hookbus_interceptors.authoring import (
    Context,
    PostToolCallContext,
    PreToolCallContext,
    Verdict,
    allow,
    deny,
    escalate,
    post_tool_call,
    pre_tool_call,
)
from hookbus_interceptors.configuration import Configuration
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.conversation import Conversation, conversation_of
from hookbus_interceptors.destinations import (
    WEB_PORTS,
    Account,
    Destination,
    Mailbox,
    Phone,
    Site,
    ascii_host,
    destinations_in,
    only_mentions,
)
from hookbus_interceptors.effects import only_reads
from hookbus_interceptors.records import CONTENT_NAMES, DOCUMENT_TOOLS, comparable, fields_in
from hookbus_interceptors.tool_names import ToolPatterns, matches

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Returns the addresses of a host, none when there is no such name; raises OSError when that cannot be told.
Resolve: TypeAlias = Callable[[str], Iterable[Address]]


class EgressConfiguration(Configuration):
    """Which destinations are permitted, and what becomes of a call with another one in it."""

    #: Hosts that data may go to: ``example.com``, or ``*.example.com`` for all below it. Private ones, too.
    hosts: frozenset[str] = frozenset()
    #: Hosts that it may never go to, even when the user names them.
    refused_hosts: frozenset[str] = frozenset()
    #: Schemes that an address may have.
    schemes: frozenset[str] = frozenset({"http", "https"})
    #: Ports that an address may have.
    ports: frozenset[int] = frozenset({80, 443})
    #: Domains that mail may go to, and all below each.
    mail_domains: frozenset[str] = frozenset()
    #: Accounts that money may go to: an IBAN, or a beginning of one with ``*``, such as ``GB*``.
    ibans: frozenset[str] = frozenset()
    #: Whether a destination that the user or the system prompt names is permitted.
    user_named: bool = True
    #: Tools whose results name destinations as well as the user does: an address book.
    trusted_tools: ToolPatterns = ()
    #: Tools that only read, beyond those whose name begins with such a verb: a mailbox in them is looked up only.
    reading_tools: ToolPatterns = ()
    #: What becomes of a call with a destination that nobody named: a person is asked, or it ends.
    otherwise: Literal["escalate", "deny"] = "escalate"
    #: Whether hosts are resolved, to refuse names that stand for private addresses.
    resolve: bool = True
    #: Names of arguments that hold an address, so that a bare word in them is a host.
    address_names: tuple[str, ...] = ("*url*", "*uri*", "*link*", "*href*", "*host*", "*domain*", "*endpoint*",
                                      "*webhook*", "*website*", "*site", "*server*", "*proxy*")  # fmt: skip
    #: Members of a tool's result that tell where it really went, after redirects.
    arrival_names: tuple[str, ...] = ("final_url", "redirect*", "effective_url", "response_url", "resolved_url")
    #: How many destinations one call may have; more are not looked through, and denied.
    most: int = Field(default=200, ge=1)


class _Problem(msgspec.Struct, frozen=True):
    """Why a destination is not permitted. Only an ``unnamed`` one is for a person to decide."""

    reason: str
    what: str
    place: str

    def verdict(self, tool: str, otherwise: str) -> Verdict:
        message = f"{tool}: {self.place} {self.what}."
        if self.reason != "egress:unnamed" or otherwise == "deny":
            return deny(self.reason, message)
        return escalate(
            self.reason,
            f"{message} Approve if data may go there.",
            parameters={"tool": tool, "argument": self.place},
        )


def system_resolver(host: str) -> Iterator[Address]:
    """Yield the addresses of *host* as this machine's own resolver gives them. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            return
        raise
    for *_, socket_address in found:
        yield ipaddress.ip_address(str(socket_address[0]).partition("%")[0])


class Egress(Configured[EgressConfiguration]):
    """Denies a tool call to a destination that is closed, and asks a person about one that nobody named."""

    def __init__(self, configuration: EgressConfiguration, resolver: Resolve = system_resolver) -> None:
        super().__init__(configuration)
        self._resolver = resolver
        self._hosts = frozenset(map(_host_pattern, configuration.hosts))
        self._refused = frozenset(map(_host_pattern, configuration.refused_hosts))
        self._mail_domains = frozenset(map(ascii_host, configuration.mail_domains))
        self._ibans = frozenset(re.sub(r"[ -]", "", iban).upper() for iban in configuration.ibans)

    @pre_tool_call
    def before(self, context: PreToolCallContext) -> Verdict:
        """Judge every destination in the arguments."""
        call = context.tool_call
        reads = only_reads(call.name, call.args, also=self.configuration.reading_tools)
        return self._judge(context, call.name, arguments_of(call.args), reads=reads)

    @post_tool_call
    def after(self, context: PostToolCallContext) -> Verdict:
        """Judge where the tool says it ended up; the data that came from there is withheld."""
        arrived = (
            argument
            for argument in arguments_of(context.tool_result.value)
            if _named(argument.name, self.configuration.arrival_names)
        )
        verdict = self._judge(context, context.tool_call.name, arrived)
        # The call has been made: there is nothing left to ask about.
        return verdict if verdict.decision.permits else deny("egress:redirected", verdict.message)

    def _judge(
        self, context: Context, tool: str, arguments: Iterable[Argument], *, reads: bool = False
    ) -> Verdict:
        conversation = conversation_of(context.raw)
        named: frozenset[Destination] | None = None
        problems: list[_Problem] = []
        seen: set[Destination] = set()
        for argument in arguments:
            if _is_known_text(argument, conversation):
                continue
            for destination in self._destinations(argument, reads):
                # Who only looks up a mailbox or an account sends nothing there; a host is asked.
                if destination in seen or (reads and not isinstance(destination, Site)):
                    continue
                if len(seen) == self.configuration.most:
                    return deny("egress:too-many", f"{tool} has more destinations in it than are looked through.")
                seen.add(destination)
                if named is None:
                    named = self._named_in(conversation)
                found = self._problem(destination, named)
                if found is not None:
                    problems.append(_Problem(*found, argument.place))
        for problem in sorted(problems, key=lambda each: each.reason == "egress:unnamed"):
            return problem.verdict(_told(tool), self.configuration.otherwise)
        return allow()

    def _destinations(self, argument: Argument, reads: bool) -> Iterator[Destination]:
        if isinstance(argument.value, str):
            is_address = _named(argument.name, self.configuration.address_names)
            # What a search is about goes nowhere, though a host is named in it.
            bare = not reads or len(argument.value.split()) == 1
            yield from destinations_in(argument.value, is_address=is_address, bare=bare)

    def _named_in(self, conversation: Conversation) -> frozenset[Destination]:
        """Return the destinations that the user, the system prompt or a trusted tool has named."""
        if not self.configuration.user_named:
            return frozenset()
        given = [each.text for each in conversation.given if matches(each.tool, self.configuration.trusted_tools)]
        return frozenset(
            destination
            for text in [*conversation.user, *conversation.system, *given]
            for destination in destinations_in(text)
        )

    def _problem(self, destination: Destination, named: frozenset[Destination]) -> tuple[str, str] | None:
        match destination:
            case Site():
                return self._site(destination, named)
            case Mailbox():
                open_to_all = _below(destination.domain, self._mail_domains)
                return None if open_to_all or destination in named else _unnamed("names a mailbox")
            case Account(iban):
                listed = any(fnmatchcase(iban, pattern) for pattern in self._ibans)
                return None if listed or destination in named else _unnamed("names a bank account")
            case Phone():
                # Tools that call or text are for the rules of who may be spoken to, not of where data may go.
                return None

    def _site(self, site: Site, named: frozenset[Destination]) -> tuple[str, str] | None:
        listed = _meets(site.host, self._hosts)
        if (site.scheme or "https") not in self.configuration.schemes or not site.host:
            return "egress:scheme", "has a scheme that is not permitted"
        if _meets(site.host, self._refused):
            return "egress:refused", "names a host that is closed"
        if (site.port or WEB_PORTS.get(site.scheme, 443)) not in self.configuration.ports and not listed:
            return "egress:port", "has a port that is not permitted"
        if listed:
            return None
        if (inside := self._inside(site)) is not None:
            return inside
        if any(isinstance(each, Site) and each.holds(site) for each in named):
            return None
        return _unnamed("names a host")

    def _inside(self, site: Site) -> tuple[str, str] | None:
        """Return the problem of a host that is this network's own, or is a name for one that is."""
        address = site.address
        if address is None and ("." not in site.host or site.host.endswith((".localhost", ".local", ".internal"))):
            return "egress:private", "names a host of the private network"
        addresses: Iterable[Address] = [address] if address else ()
        if address is None and self.configuration.resolve:
            try:
                addresses = list(self._resolver(site.host))
            except OSError:
                return "egress:unresolved", "names a host whose address cannot be told now"
        if all(map(_is_public, addresses)):
            return None
        return "egress:private", "leads into the private network"


def _is_known_text(argument: Argument, conversation: Conversation) -> bool:
    """Whether the value refers to a record by a name that happens to mention an address."""
    value = argument.value
    if not isinstance(value, str) or not only_mentions(value) or _named(argument.name, CONTENT_NAMES):
        return False
    return any(
        comparable(value) in fields_in(given.text)
        for given in conversation.given
        if not matches(given.tool, DOCUMENT_TOOLS)
    )


_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]{1,128}")


def _told(tool: str) -> str:
    return tool if _TOOL_NAME.fullmatch(tool) else "the tool"


def _unnamed(what: str) -> tuple[str, str]:
    return "egress:unnamed", f"{what} that is not on the list and that the user did not name"


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        # The well-known prefix of translation (RFC 6052) ends in an IPv4 address.
        if inner is None and address in ipaddress.IPv6Network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and not _is_public(inner):
            return False
    return address.is_global and not address.is_multicast


def _host_pattern(host: str) -> str:
    star, dot, rest = host.partition("*.")
    return f"*.{ascii_host(rest)}" if dot and not star else ascii_host(host)


def _meets(host: str, patterns: frozenset[str]) -> bool:
    return host in patterns or any(pattern.startswith("*.") and host.endswith(pattern[1:]) for pattern in patterns)


def _below(domain: str, domains: frozenset[str]) -> bool:
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def _named(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
