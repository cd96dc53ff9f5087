"""What ``redact`` looks for, and what becomes of it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from agent_hooks import InterceptionPoint
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator, model_validator

from hookbus_interceptors.configuration import Configuration, Source
from hookbus_interceptors.redact.national_ids import COUNTRIES, NATIONAL_IDS

Action: TypeAlias = Literal["replace", "hash", "refuse", "keep"]
#: Kinds that Presidio finds with a language model.
PEOPLE_KINDS: Final = frozenset({"PERSON", "LOCATION", "NRP", "ORGANIZATION"})
KINDS: Final = (
    frozenset({"EMAIL", "PHONE", "IP", "IBAN", "CARD", "SECRET"})
    | frozenset(each.kind for each in NATIONAL_IDS)
    | PEOPLE_KINDS
)
_KEY_BYTES: Final = 16
_POINTS: Final = frozenset(point.value for point in InterceptionPoint if point.transform_permitted)


class PeopleConfiguration(BaseModel):
    """Names of people and places, by Presidio with a model of spaCy. Both must be installed beside the worker."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: The package of the model: ``en_core_web_sm``.
    model: str = Field(min_length=1)
    #: The language of the model.
    language: str = Field(default="en", pattern=r"^[a-z]{2}$")
    #: Which of ``PERSON``, ``LOCATION``, ``NRP``, ``ORGANIZATION``.
    kinds: frozenset[str] = frozenset({"PERSON"})
    #: How sure Presidio must be, from 0 to 1.
    score: float = Field(default=0.5, ge=0, le=1)

    @field_validator("kinds")
    @classmethod
    def _are_people(cls, kinds: frozenset[str]) -> frozenset[str]:
        if not kinds or kinds - PEOPLE_KINDS:
            raise ValueError(f"are some of {', '.join(sorted(PEOPLE_KINDS))}")
        return kinds


class RedactConfiguration(Configuration):
    """Which kinds are looked for, in whose writing, and what becomes of each."""

    #: What becomes of a kind that ``actions`` does not name.
    otherwise: Action = "replace"
    #: What becomes of each kind, by its name or a pattern such as ``BR_*``; the first that matches counts.
    actions: dict[str, Action] = Field(default_factory=dict)
    #: The same for one interception point alone; it counts before ``actions``.
    at: dict[str, dict[str, Action]] = Field(default_factory=dict)
    #: The key that ``hash`` needs, at least 16 bytes: a file beside the configuration. It is not in the version.
    key: SecretStr | None = None
    #: The countries whose identifiers are looked for, ``ES``.
    countries: frozenset[str] = COUNTRIES
    #: The countries whose telephone numbers are known without ``+``.
    phone_regions: frozenset[str] = frozenset()
    #: Whether an address inside a private network is one, too.
    private_addresses: bool = False
    #: What is a secret when it is called so, in lower case with ``_`` between words.
    secret_names: tuple[str, ...] = (
        "*password", "*passwd", "*passphrase", "*passcode", "pwd", "*_pwd", "*secret", "*secret_key", "*api_key",
        "*apikey", "*access_key", "*private_key", "*signing_key", "*access_token", "*auth_token", "*refresh_token",
        "*bearer_token", "authorization", "contraseña", "senha", "kennwort", "passwort", "mot_de_passe",
    )  # fmt: skip
    #: How many texts without anything to find are known again. 0 looks through every one each time.
    remember: int = Field(default=10_000, ge=0)
    #: Whether people and places are looked for, and with which model.
    people: PeopleConfiguration | None = None

    @field_validator("key", mode="before")
    @classmethod
    def _read(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(info.context, Source) and isinstance(value, str):
            return info.context.text_beside(value).strip()
        return value

    @field_validator("key")
    @classmethod
    def _is_long(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value().encode()) < _KEY_BYTES:
            raise ValueError(f"has less than {_KEY_BYTES} bytes")
        return key

    @field_validator("countries")
    @classmethod
    def _are_known(cls, countries: frozenset[str]) -> frozenset[str]:
        if unknown := countries - COUNTRIES:
            raise ValueError(f"has no identifiers of {len(unknown)} of them")
        return countries

    @field_validator("actions")
    @classmethod
    def _name_kinds(cls, actions: dict[str, Action]) -> dict[str, Action]:
        if not all(any(fnmatchcase(kind, pattern) for kind in KINDS) for pattern in actions):
            raise ValueError("has a pattern that no kind matches")
        return actions

    @field_validator("at")
    @classmethod
    def _name_points(cls, at: dict[str, dict[str, Action]]) -> dict[str, dict[str, Action]]:
        if at.keys() - _POINTS:
            raise ValueError(f"is for points that permit a transform: {', '.join(sorted(_POINTS))}")
        return {point: cls._name_kinds(actions) for point, actions in at.items()}

    @model_validator(mode="after")
    def _has_its_key(self) -> RedactConfiguration:
        actions = {
            self.otherwise,
            *self.actions.values(),
            *(a for each in self.at.values() for a in each.values()),
        }
        if "hash" in actions and self.key is None:
            raise ValueError("hash needs a key")
        return self

    def action(self, kind: str, point: str) -> Action:
        """Return what becomes of *kind* at *point*."""
        for actions in (self.at.get(point, {}), self.actions):
            for pattern, action in actions.items():
                if fnmatchcase(kind, pattern):
                    return action
        return self.otherwise
