"""``policy`` in Rego and Cedar, through the standard's own runtime, PyPI ``agent-control-spec``.

The runtime pins an SDK that the agent's side is too new for, so this runs in a worker environment of its own.
What it stops and cannot: as the policies say. How it fails: an output without a decision, an undefined one, an
error of an engine, and a point or a tool that the manifest does not name are denies of the runtime,
``runtime_error:*``.
"""

from __future__ import annotations

from typing import Any, Final

import agent_control_spec  # type: ignore[import-not-found, unused-ignore]  # in an environment of its own
import msgspec
from pydantic import Field

from hookbus.codec import Json
from hookbus_interceptors.authoring import Context, Verdict, every_point
from hookbus_interceptors.configuration import Configuration, FileText
from hookbus_interceptors.configured import Configured
from hookbus_interceptors.policy.errors import PolicyInvalid, place_in

#: What a policy of the manifest may say by its type. The rest leads to files that nobody watches, to code, or to
#: verdicts without a rule.
_SETTINGS: Final = {"rego": {"type", "query"}, "cedar": {"type", "policy_set"}}
#: What the manifest may say of the policy at a point.
_BOUND: Final = {"id", "query"}


class AgentControlConfiguration(Configuration):
    """A manifest and the policies that it names. All texts are watched and enter the version."""

    #: The manifest of ``agent-control-spec``, in YAML: which policy decides at which point, which tools there are.
    manifest: FileText
    #: The modules in Rego by the policy that they make up; they replace its ``bundle``.
    rego: dict[str, tuple[FileText, ...]] = Field(default_factory=dict)
    #: The policies in Cedar by their names in the manifest; they replace ``policy_path``.
    cedar: dict[str, FileText] = Field(default_factory=dict)
    #: Documents in JSON that Rego finds under ``data.NAME``.
    data: dict[str, FileText] = Field(default_factory=dict)


class AgentControlPolicy(Configured[AgentControlConfiguration]):
    """Answers with the verdict of the manifest's policy for the point."""

    def __init__(self, configuration: AgentControlConfiguration) -> None:
        """Compile the policies. Raises :class:`PolicyInvalid`."""
        super().__init__(configuration)
        manifest = _completed(configuration)
        data = [{"mount": [name], "document": _document(name, text)} for name, text in configuration.data.items()]
        bundles = {
            policy: {
                "modules": {f"{policy}/{number}.rego": text for number, text in enumerate(texts)},
                "data": data,
            }
            for policy, texts in configuration.rego.items()
        }
        try:
            self._policy = agent_control_spec.ActivatedPolicy.from_memory(manifest, bundles)
        except (ValueError, RuntimeError) as error:
            raise PolicyInvalid(f"the runtime refuses it{place_in(error)}") from None

    @every_point
    def judge(self, context: Context) -> Verdict:
        """Return the runtime's verdict, which is a deny where a policy has none."""
        verdict: Verdict = self._policy.evaluate(context.point.value, context.raw)
        return verdict


def _completed(configuration: AgentControlConfiguration) -> str:
    """Return the manifest with the texts of its policies in it. Raises :class:`PolicyInvalid`."""
    try:
        manifest: dict[str, Any] = agent_control_spec.parse_manifest(configuration.manifest)
    except ValueError as error:
        raise PolicyInvalid(f"the manifest is none{place_in(error)}") from None
    policies = manifest["policies"]
    for name in [*configuration.rego, *configuration.cedar]:
        if name not in policies:
            raise PolicyInvalid(f"the manifest has no policy {name!r}")
    for name in configuration.rego:
        policies[name].pop("bundle", None)
    for name, text in configuration.cedar.items():
        policies[name].pop("policy_path", None)
        policies[name]["policy_set"] = text
    for name, policy in policies.items():
        _check(f"the policy {name!r}", policy, _SETTINGS.get(policy["type"], set()))
        if policy["type"] == "rego" and not configuration.rego.get(name):
            raise PolicyInvalid(f"there is no text for the policy {name!r}")
    for point, bound in manifest["intervention_points"].items():
        if "policy" not in bound:
            raise PolicyInvalid(f"the point {point!r} has no policy")
        _check(f"the point {point!r}", bound["policy"], _BOUND)
    return msgspec.json.encode(manifest).decode()


def _check(what: str, settings: dict[str, Json], known: set[str]) -> None:
    unknown = settings.keys() - known
    if unknown:
        raise PolicyInvalid(f"{what} says {', '.join(sorted(unknown))}, which is not taken here")


def _document(name: str, text: str) -> dict[str, Json]:
    try:
        document: dict[str, Json] = msgspec.json.decode(text, type=dict[str, Json])
    except msgspec.DecodeError:
        raise PolicyInvalid(f"the data {name!r} are not a JSON object") from None
    return document
