"""Everything that somebody might try, and which role may.

The roles are tried as the agent ``travel``, the worker of ``policy``, the approver ``alice``, the auditor ``ada``,
the operator ``olga`` and the store ``hookbus-budget``, all of the tenant ``default``. ``payroll``, ``redactor``,
``bob``, ``eve``, ``hookbus-rate-limit`` and the tenant ``acme`` are others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hookbus.authority.roles import Role

WHO: Final = {
    Role.AGENT: "travel",
    Role.WORKER: "policy",
    Role.APPROVER: "alice",
    Role.AUDITOR: "ada",
    Role.OPERATOR: "olga",
    Role.STORE: "hookbus-budget",
}


class Action(NamedTuple):
    verb: str
    subject: str
    #: Who may; nobody if None.
    role: Role | None
    queue: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.subject} {self.queue}".rstrip()


_HB: Final = "hb.v1.default"

_PUBLISH: Final[list[tuple[str, Role | None]]] = [
    # Questions and answers.
    (f"{_HB}.ctx.policy.pre_tool_call.travel", Role.AGENT),
    (f"{_HB}.ctx.redactor.input.travel", Role.AGENT),
    (f"{_HB}.ctx.policy.pre_tool_call.payroll", None),
    (f"{_HB}.ctx.policy.pre_tool_call.travel.w1", Role.AGENT),
    (f"{_HB}.ctx.policy.pre_tool_call.payroll.w1", None),
    (f"{_HB}.ctx.policy.pre_tool_call.travel.w1.more", None),
    ("hb.v1.acme.ctx.policy.pre_tool_call.travel", None),
    ("hb.v2.default.ctx.policy.pre_tool_call.travel", None),
    (f"{_HB}.ans.policy.travel.c0ffee.1", Role.WORKER),
    (f"{_HB}.ans.policy.payroll.c0ffee.1", Role.WORKER),
    (f"{_HB}.ans.redactor.travel.c0ffee.1", None),
    (f"{_HB}.ans._streams.travel.c0ffee.1", None),
    ("hb.v1.acme.ans.policy.travel.c0ffee.1", None),
    # Records and approvals.
    (f"{_HB}.rec.travel.pre_tool_call", Role.AGENT),
    (f"{_HB}.rec.payroll.pre_tool_call", None),
    ("hb.v1.acme.rec.travel.pre_tool_call", None),
    (f"{_HB}.apr.req.travel.a1", Role.AGENT),
    (f"{_HB}.apr.req.payroll.a1", None),
    ("hb.v1.acme.apr.req.travel.a1", None),
    (f"{_HB}.apr.dec.travel.a1.alice", Role.APPROVER),
    (f"{_HB}.apr.dec.payroll.a1.alice", Role.APPROVER),
    (f"{_HB}.apr.dec.travel.a1.bob", None),
    ("hb.v1.acme.apr.dec.travel.a1.alice", None),
    (f"{_HB}.apr.travel", None),
    # Operators' requests, and inboxes.
    ("$SRV.PING", Role.OPERATOR),
    ("$SRV.STATS.policy", Role.OPERATOR),
    ("_INBOX.operator.olga.1", Role.WORKER),
    ("_R_.1", None),
    ("$SYS.REQ.SERVER.PING", None),
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", None),
    # Reading the streams.
    (f"$JS.streams.API.DIRECT.GET.APPROVALS.{_HB}.apr.dec.travel.a1.*", Role.AGENT),
    (f"$JS.streams.API.DIRECT.GET.APPROVALS.{_HB}.apr.dec.payroll.a1.*", None),
    (f"$JS.streams.API.DIRECT.GET.APPROVALS.{_HB}.apr.req.travel.a1", None),
    ("$JS.streams.API.DIRECT.GET.APPROVALS", None),
    (f"$JS.streams.API.DIRECT.GET.RECORDS.{_HB}.rec.travel.input", None),
    ("$JS.streams.API.STREAM.MSG.GET.RECORDS", None),
    ("$JS.streams.API.STREAM.MSG.GET.APPROVALS", None),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.APPROVALS.approver-alice", Role.APPROVER),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.APPROVALS.approver-bob", None),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.RECORDS.approver-alice", None),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.RECORDS.auditor-ada", Role.AUDITOR),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.APPROVALS.auditor-ada", Role.AUDITOR),
    ("$JS.streams.API.CONSUMER.MSG.NEXT.RECORDS.auditor-eve", None),
    ("$JS.ACK.APPROVALS.approver-alice.1.1.1.1.0", Role.APPROVER),
    ("$JS.ACK.APPROVALS.approver-bob.1.1.1.1.0", None),
    ("$JS.ACK.RECORDS.auditor-ada.1.1.1.1.0", Role.AUDITOR),
    ("$JS.ACK.RECORDS.auditor-eve.1.1.1.1.0", None),
    # Making streams and durables, and undoing what is in them.
    ("$JS.streams.API.STREAM.INFO.RECORDS", Role.OPERATOR),
    ("$JS.streams.API.STREAM.NAMES", Role.OPERATOR),
    ("$JS.streams.API.STREAM.CREATE.RECORDS", Role.OPERATOR),
    ("$JS.streams.API.STREAM.CREATE.APPROVALS", Role.OPERATOR),
    ("$JS.streams.API.STREAM.CREATE.OTHER", None),
    ("$JS.streams.API.CONSUMER.CREATE.RECORDS.auditor-ada", Role.OPERATOR),
    ("$JS.streams.API.CONSUMER.CREATE.RECORDS", None),
    ("$JS.streams.API.CONSUMER.DURABLE.CREATE.RECORDS.auditor-ada", None),
    ("$JS.streams.API.CONSUMER.INFO.RECORDS.auditor-eve", Role.OPERATOR),
    *(
        (f"$JS.{domain}API.{verb}", None)
        for domain in ("", "streams.")
        for verb in (
            "STREAM.DELETE.RECORDS",
            "STREAM.DELETE.APPROVALS",
            "STREAM.PURGE.RECORDS",
            "STREAM.PURGE.APPROVALS",
            "STREAM.UPDATE.RECORDS",
            "STREAM.UPDATE.APPROVALS",
            "STREAM.MSG.DELETE.RECORDS",
            "STREAM.MSG.DELETE.APPROVALS",
            "STREAM.SNAPSHOT.RECORDS",
            "STREAM.RESTORE.RECORDS",
            "STREAM.LEADER.STEPDOWN.RECORDS",
            "CONSUMER.DELETE.RECORDS.auditor-ada",
            "CONSUMER.PAUSE.RECORDS.auditor-ada",
            "CONSUMER.RESET.RECORDS.auditor-ada",
            "ACCOUNT.PURGE.STREAMS_default",
            "SERVER.REMOVE",
        )
    ),
    ("$JS.API.STREAM.CREATE.RECORDS", None),
    ("$JS.API.CONSUMER.CREATE.RECORDS.auditor-ada", None),
    ("$JS.API.CONSUMER.MSG.NEXT.RECORDS.auditor-ada", None),
    ("$JS.API.INFO", None),
    # A store.
    ("$JS.streams.API.STREAM.INFO.KV_hookbus-budget", Role.STORE),
    ("$JS.streams.API.STREAM.CREATE.KV_hookbus-budget", Role.STORE),
    ("$JS.streams.API.DIRECT.GET.KV_hookbus-budget.$KV.hookbus-budget.default.key", Role.STORE),
    ("$KV.hookbus-budget.default.key", Role.STORE),
    ("$JS.streams.API.DIRECT.GET.KV_hookbus-budget.$KV.hookbus-budget.acme.key", None),
    ("$KV.hookbus-budget.acme.key", None),
    ("$KV.hookbus-budget.key", None),
    ("$JS.streams.API.STREAM.CREATE.KV_hookbus-rate-limit", None),
    ("$JS.streams.API.STREAM.INFO.KV_hookbus-rate-limit", None),
    ("$JS.streams.API.DIRECT.GET.KV_hookbus-rate-limit.$KV.hookbus-rate-limit.default.key", None),
    ("$KV.hookbus-rate-limit.default.key", None),
    ("$JS.API.STREAM.INFO.RECORDS", None),
    *(
        (f"$JS.{domain}API.{verb}.KV_hookbus-budget", None)
        for domain in ("", "streams.")
        for verb in (
            "STREAM.DELETE",
            "STREAM.PURGE",
            "STREAM.UPDATE",
            "STREAM.MSG.GET",
            "STREAM.MSG.DELETE",
            "STREAM.SNAPSHOT",
            "STREAM.RESTORE",
            "DIRECT.GET",
            "CONSUMER.CREATE",
            "CONSUMER.LIST",
        )
    ),
    ("$JS.API.STREAM.NAMES", None),
    ("$JS.API.STREAM.LIST", None),
]

_SUBSCRIBE: Final[list[tuple[str, str, Role | None]]] = [
    (f"{_HB}.ans.*.travel.c0ffee.*", "", Role.AGENT),
    (f"{_HB}.ans.*.payroll.c0ffee.*", "", None),
    (f"{_HB}.ans.>", "", None),
    (f"{_HB}.ans.policy.*.*.*", "", None),
    ("hb.v1.acme.ans.*.travel.c0ffee.*", "", None),
    (f"{_HB}.ctx.policy.*.*", "policy", Role.WORKER),
    (f"{_HB}.ctx.policy.pre_tool_call.*", "policy", Role.WORKER),
    (f"{_HB}.ctx.policy.*.*.w1", "", Role.WORKER),
    (f"{_HB}.ctx.policy.*.*", "", None),
    (f"{_HB}.ctx.policy.*.>", "", None),
    (f"{_HB}.ctx.policy.>", "", None),
    (f"{_HB}.ctx.redactor.*.*.w1", "", None),
    (f"{_HB}.ctx.policy.*.*", "redactor", None),
    (f"{_HB}.ctx.redactor.*.*", "redactor", None),
    (f"{_HB}.ctx.redactor.*.*", "policy", None),
    (f"{_HB}.ctx.*.*.*", "policy", None),
    (f"{_HB}.ctx.>", "policy", None),
    ("hb.v1.acme.ctx.policy.*.*", "policy", None),
    (f"{_HB}.rec.>", "", None),
    (f"{_HB}.rec.travel.*", "", None),
    (f"{_HB}.apr.req.>", "", None),
    (f"{_HB}.apr.dec.travel.>", "", None),
    ("$SRV.PING", "", Role.WORKER),
    ("$SRV.STATS.policy", "", Role.WORKER),
    ("$SRV.INFO.policy.1a2b", "", Role.WORKER),
    ("$SRV.PING.redactor", "", None),
    ("$SRV.*", "", None),
    ("$SRV.*.policy", "", None),
    ("$SRV.>", "", None),
    ("_INBOX.>", "", None),
    ("_INBOX.approver.alice.>", "", Role.APPROVER),
    ("_INBOX.approver.bob.>", "", None),
    ("_INBOX.auditor.ada.>", "", Role.AUDITOR),
    ("_INBOX.auditor.eve.>", "", None),
    ("_INBOX.operator.olga.>", "", Role.OPERATOR),
    ("_INBOX.store.hookbus-budget.>", "", Role.STORE),
    ("_INBOX.store.hookbus-rate-limit.>", "", None),
    ("$KV.hookbus-budget.default.>", "", None),
    ("_R_.>", "", None),
    ("$JS.>", "", None),
    ("$JS.EVENT.>", "", None),
    ("$JS.streams.API.>", "", None),
    ("$SYS.>", "", None),
    (">", "", None),
]

ACTIONS: Final = [
    *(Action("publish", subject, role) for subject, role in _PUBLISH),
    *(Action("subscribe", subject, role, queue) for subject, queue, role in _SUBSCRIBE),
]
