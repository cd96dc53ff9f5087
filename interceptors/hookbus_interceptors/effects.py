"""What a tool does, told by the words of its name: whether it only reads, and which kind of action it takes.

Names are chosen by whoever offers a tool. One that lies about what it does is for the catalogue of permitted tools
(``schema-guard``), not for these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict

from hookbus.codec import Json
from hookbus_interceptors.tool_names import ToolPatterns, is_plain_ascii, matches, words


class Kind(BaseModel):
    """A kind of action: the words of tools' names that mean it, and the words by which people ask for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Words in the name of a tool. The first kind in order that has one of them is the tool's.
    tools: frozenset[str]
    #: Stems of verbs, or phrases, that ask for it: ``delet`` is met by delete, deletes, deleting and deleted.
    asked_by: tuple[str, ...]
    #: Stems of verbs that ask for it when one of *objects* comes later in the sentence: to make, an appointment.
    made_by: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    #: Whether what it does cannot be taken back.
    destructive: bool = False


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _kind(tools: str, asked_by: str, made_by: str = "", objects: str = "", *, destructive: bool = False) -> Kind:
    return Kind(
        tools=frozenset(_listed(tools)),
        asked_by=_listed(asked_by),
        made_by=_listed(made_by) if made_by else (),
        objects=_listed(objects) if objects else (),
        destructive=destructive,
    )


#: A tool only reads when this is the first word of its name.
READING_VERBS: Final = frozenset(
    _listed(
        "get, list, search, read, find, fetch, check, show, view, lookup, look, query, count,"
        " describe, retrieve, browse, inspect, summarize, calculate, compute, convert, is, has, can,"
        " validate, verify, preview, explain, compare, load, scan, status, current, today, now,"
        " whoami, help"
    )
)
#: Words that no tool has in its name which only reads, wherever they stand.
ACTING_WORDS: Final = frozenset(
    _listed("and, delete, remove, erase, wipe, purge, send, execute, exec, replace, overwrite, out")
)
#: Arguments that make a tool do what they say, whatever its name is.
COMMAND_NAMES: Final = frozenset(_listed("command, cmd, sql, script, code, shell, statement, mutation"))

#: Kinds of action that people ask for in English. A deployment replaces them for another language.
KINDS: Final[Mapping[str, Kind]] = {
    "secrets": _kind(
        "password, passcode, credential, credentials, secret, pin, mfa, token",
        "the password, my password, new password, a password, password to, credential, the secret, a"
        " secret, new secret, the pin, my pin, two-factor, rotat",
    ),
    "removal": _kind(
        "delete, remove, drop, cancel, destroy, erase, wipe, purge, clear, revoke, uninstall,"
        " unsubscribe, terminate, kick, ban, trash, truncate, reset, close",
        "delet, remov, drop, cancel, destroy, eras, wip, purg, clear, revok, uninstall, unsubscrib,"
        " terminat, kick, ban, trash, clos, get rid, clean, discard",
        destructive=True,
    ),
    "payment": _kind(
        "pay, payment, money, transaction, transfer, refund, wire, invoice, purchase, buy, checkout,"
        " order, donate, charge, deposit, withdraw, subscribe, trade, sell, invest",
        "pay, refund, transfer, wir, send, purchas, buy, order, donat, deposit, withdraw, subscrib,"
        " reimburs, settl, sell, invest, trad, top up",
        "adjust, updat, chang, set, schedul, creat, mak, correct, rais, lower",
        "payment, rent, transaction, transfer, standing order, subscription, bill, invoice, order,"
        " deposit, purchase",
    ),
    "access": _kind(
        "share, invite, grant, permission, permissions, permit, role, member, members, access,"
        " authorize, user, allow, unlock, assign",
        "shar, invit, grant, permit, add, authoriz, authoris, unlock, assign, allow, giv, updat,"
        " chang, set, onboard",
    ),
    "reservation": _kind(
        "reserve, book, reservation, booking, rent, hire",
        "reserv, book, rent, hir",
        "mak, creat, chang, get",
        "reservation, booking",
    ),
    "calendar": _kind(
        "calendar, event, appointment, meeting, reminder, schedule, reschedule",
        "schedul, reschedul, invit, remind, arrang, postpon, plan a",
        "creat, add, mak, put, set, mov, block, book, organiz, organis, chang, updat",
        "event, meeting, appointment, calendar, reminder, schedule, call, lunch, dinner, participant,"
        " attendee, slot, hour, session",
    ),
    "publication": _kind(
        "publish, post, tweet, webpage, website, blog, broadcast, announce",
        "publish, post, tweet, broadcast, announc, upload, blog",
        "writ, put, add, creat, updat, submit, shar",
        "page, webpage, website, site, blog, post, feed, wiki",
    ),
    "message": _kind(
        "send, reply, respond, forward, email, mail, message, notify, comment, submit, dm, sms, text,"
        " call, contact",
        "send, reply, respond, forward, email, mail, messag, notify, comment, submit, dm, text, call,"
        " contact, writ, post, tell, inform, let, ask, announc",
    ),
    "change": _kind(
        "create, add, make, update, change, set, edit, append, write, rename, move, modify, upload,"
        " insert, save, put, register, enable, disable, replace, copy, import, export, generate, new,"
        " open, start, stop, merge, push, commit",
        "creat, add, mak, updat, chang, set, edit, append, writ, renam, mov, modify, upload, insert,"
        " sav, put, register, enabl, disabl, replac, copy, import, export, generat, new, adjust,"
        " correct, fix, fill, open, start, stop, merg, push, commit, appl, store, record, note",
    ),
}


def only_reads(
    tool: str, args: Mapping[str, Json], *, also: ToolPatterns = (), verbs: frozenset[str] = READING_VERBS
) -> bool:
    """Whether the call changes nothing and tells nobody anything, but for the address that it may read from.

    A name with letters of other scripts or of ``ACTING_WORDS`` does not, nor does a call that holds a command.
    """
    if not is_plain_ascii(tool) or COMMAND_NAMES.intersection(map(str.casefold, args)):
        return False
    if str(args.get("method", "GET")).upper() not in ("GET", "HEAD"):
        return False
    spoken = words(tool)
    return matches(tool, also) or bool(spoken and spoken[0] in verbs and not ACTING_WORDS.intersection(spoken))


def kind_of(tool: str, kinds: Mapping[str, Kind] = KINDS) -> Kind | None:
    """Return the kind of action that *tool* takes, None when no word of its name tells."""
    spoken = frozenset(words(tool))
    return next((kind for kind in kinds.values() if kind.tools & spoken), None)
