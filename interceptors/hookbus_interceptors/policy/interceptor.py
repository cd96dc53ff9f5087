"""``policy``: rules in CEL, from one file. All of them are read, and the strictest that is met decides.

What it stops: whatever no rule permits. What it cannot: a call that a rule permits and should not. How it fails: a
rule that cannot be decided denies, whatever the others say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agent_hooks import InterceptionPoint

from hookbus.codec import Json
from hookbus_interceptors.authoring import Context, Verdict, allow, deny, escalate, every_point, replace
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.policy.configuration import PolicyConfiguration, Rule
from hookbus_interceptors.policy.errors import Undecided
from hookbus_interceptors.policy.expression import Expression, Scope

#: Blocks that an agent may leave out (§4); left out they are empty, so that a rule can ask ``has(tenant.id)``.
OPTIONAL_BLOCKS: Final[Mapping[str, Json]] = {"tenant": {}, "actor": {}, "budgets": {}, "extensions": {}}

#: The reason where a rule, or its value, has no answer.
UNDECIDED: Final = "policy:undecided"


class _Compiled:
    """A rule with its expressions."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.reason = f"policy:{rule.name}"
        self._when = Expression(rule.when)
        self._value = None if rule.value is None else Expression(rule.value)
        self.names = self._when.names | (self._value.names if self._value is not None else frozenset())

    def meets(self, scope: Scope) -> bool:
        """Return whether the question meets the rule. Raises :class:`Undecided`."""
        return self._when.holds(scope)

    def verdict(self, scope: Scope) -> Verdict:
        """Return the verdict on a question that meets the rule. Raises :class:`Undecided`."""
        rule = self.rule
        match rule.then:
            case "allow":
                return allow()
            case "escalate":
                parameters = {"approver": rule.approver} if rule.approver else {}
                return escalate(self.reason, rule.message, parameters={"rule": rule.name, **parameters})
            case "transform" if self._value is not None and rule.path is not None:
                value = self._value.value(scope)
                return replace(rule.path, value, reason=self.reason, message=rule.message)
            case _:
                return deny(self.reason, rule.message)


class _Rules:
    """The rules of one point."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = [_Compiled(rule) for rule in rules]
        self._names = frozenset[str]().union(*(each.names for each in self._rules))

    def verdict(self, context: Mapping[str, Json]) -> Verdict:
        """Return the strictest verdict of the rules that *context* meets, and a deny if there is none."""
        try:
            scope = Scope(context, self._names)
        except Undecided as error:
            return deny(UNDECIDED, f"The context cannot be read ({error.why}).")
        met: dict[str, list[_Compiled]] = {"deny": [], "escalate": [], "transform": [], "allow": []}
        undecided: list[str] = []
        for each in self._rules:
            try:
                if each.meets(scope):
                    met[each.rule.then].append(each)
            except Undecided as error:
                undecided.append(f"{each.rule.name} ({error.why})")
        if met["deny"]:
            return met["deny"][0].verdict(scope)
        if undecided:
            return deny(UNDECIDED, f"Rules that cannot be decided: {', '.join(undecided)}.")
        if len(met["transform"]) + bool(met["escalate"]) > 1:
            # A transform that is dropped would let through what it is there to take out.
            return deny("policy:conflict", "A rule transforms, and another one transforms or escalates.")
        strictest = next((rules[0] for rules in met.values() if rules), None)
        if strictest is None:
            return deny("policy:no-rule", "No rule permits this.")
        try:
            return strictest.verdict(scope)
        except Undecided as error:
            return deny(UNDECIDED, f"The value of {strictest.rule.name} cannot be decided ({error.why}).")


class Policy(Configured[PolicyConfiguration]):
    """Denies what no rule permits, and does what the strictest rule says that a question meets."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        super().__init__(configuration)
        self._rules = {
            point: _Rules(rule for rule in configuration.rules if point in rule.points)
            for point in InterceptionPoint
        }

    @every_point
    def judge(self, context: Context) -> Verdict:
        """Return the strictest verdict: deny, then escalate, then transform, then allow."""
        return self._rules[context.point].verdict({**OPTIONAL_BLOCKS, **context.raw})
