"""The settings of ``content``: where the endpoint is, how it is spoken to, and what becomes of what it finds."""

from __future__ import annotations

import os
import ssl
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from hookbus_interceptors.configuration import Configuration, FileText, Source

#: What becomes of text: the action ends, a person is asked, or the text is replaced by a notice.
Action: TypeAlias = Literal["deny", "escalate", "rewrite"]


def _secret_beside(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str) and isinstance(info.context, Source):
        return info.context.text_beside(value)
    return value


#: A file beside the configuration that holds a secret and nothing else. It is watched, and never shown; in code
#: the value is the secret itself.
SecretFile: TypeAlias = Annotated[SecretStr, BeforeValidator(_secret_beside)]


class Category(BaseModel):
    """One thing that the classifier looks for."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: The score from which on it is met.
    at: float = Field(gt=0, le=1)
    #: What becomes of text that meets it.
    action: Action = "deny"
    #: Where the score stands in the answer of a plain endpoint: ``data.0.probs.1``, ``label=INJECTION.score``.
    score: str | None = Field(default=None, min_length=1)


class ContentConfiguration(Configuration):
    """Which endpoint judges, and what becomes of what it finds."""

    #: The endpoint: ``http://127.0.0.1:8000/v1/moderations``.
    url: HttpUrl
    #: How it is spoken to: as OpenAI's moderations, or with one text in each request and paths into the answer.
    shape: Literal["openai", "plain"] = "openai"
    #: The ``model`` of a request; none is sent without it.
    model: str | None = None
    #: The member of a plain request that holds the text.
    text_name: str = "input"
    #: Where a plain answer says true or false to the text as a whole.
    flag: str | None = Field(default=None, min_length=1)
    #: By the endpoint's own names. Each must be in every answer.
    categories: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,63}$")], Category] = Field(
        default={}
    )
    #: What becomes of text that the endpoint flags for something that ``categories`` does not name.
    flagged: Action | Literal["ignore"] = "deny"
    #: What stands in place of text that was taken out.
    notice: str = Field(default="[removed by the content policy]", min_length=1)

    #: The file with the key of the endpoint, or the environment variable with it.
    key_file: SecretFile | None = None
    key_variable: str | None = None
    #: The header that the key goes in; in ``Authorization`` it is a bearer token.
    key_header: str = Field(default="Authorization", pattern=r"^[A-Za-z0-9-]{1,64}$")
    #: The file of the certificates (PEM) that may vouch for the endpoint, in place of the system's.
    ca_file: FileText | None = None

    #: How long the endpoint is waited for; never longer than the question has left less ``margin_s``.
    timeout_s: float = Field(default=2.0, gt=0)
    #: What is kept of the question's time for the way back.
    margin_s: float = Field(default=0.05, ge=0)
    #: Requests at the same time, of one worker.
    connections: int = Field(default=8, ge=1)
    #: Texts in one request; a plain one has a single text.
    batch: int = Field(default=32, ge=1)
    #: Characters that are judged at once; longer text is judged in pieces.
    piece: int = Field(default=2000, ge=16)
    #: Characters that two neighbouring pieces share.
    overlap: int = Field(default=200, ge=0)
    #: Pieces of one question. More are not judged, and denied.
    most: int = Field(default=1000, ge=1)
    #: The longest answer that is read.
    max_answer_bytes: int = Field(default=1_000_000, ge=1)
    #: How long a judgement holds for the same text, and how many are kept. 0 asks every time.
    remember_s: float = Field(default=300.0, ge=0)
    remember: int = Field(default=10_000, ge=0)

    @field_validator("url")
    @classmethod
    def _holds_no_secret(cls, url: HttpUrl) -> HttpUrl:
        # Addresses are logged; keys have a place of their own.
        if url.username or url.password or url.query or url.fragment:
            raise ValueError("has a user name, a query or a fragment; a key belongs in key_file or key_variable")
        return url

    @model_validator(mode="after")
    def _can_be_meant(self) -> Self:
        scores = [category.score for category in self.categories.values()]
        if self.shape == "openai" and (self.flag or any(scores)):
            raise ValueError("flag and score are for shape = 'plain'")
        if self.shape == "plain" and not (all(scores) and (scores or self.flag)):
            raise ValueError("a plain endpoint needs a score for every category, or a flag")
        if not self.categories and self.flagged == "ignore":
            raise ValueError("nothing is looked for: name categories, or what becomes of flagged text")
        if self.overlap > self.piece // 2:
            raise ValueError("overlap is more than half of a piece")
        if self.key_file is not None and self.key_variable is not None:
            raise ValueError("key_file and key_variable exclude each other")
        if self.key_variable is not None and self.key_variable not in os.environ:
            raise ValueError("key_variable names an environment variable that is not set")
        if not all(map(_fits_a_header, self.key_headers().values())):
            raise ValueError("the key is not one line of visible ASCII")
        try:
            self.tls()
        except ssl.SSLError:
            raise ValueError("ca_file holds no certificates") from None
        return self

    def key_headers(self) -> dict[str, str]:
        """Return the header with the key, where there is one. It is a secret."""
        if self.key_file is not None:
            key = self.key_file.get_secret_value().strip()
        elif self.key_variable is not None:
            key = os.environ[self.key_variable].strip()
        else:
            return {}
        return {self.key_header: f"Bearer {key}" if self.key_header.casefold() == "authorization" else key}

    def tls(self) -> ssl.SSLContext | bool:
        """Return by whose word the endpoint is believed to be itself; True is the system's."""
        return True if self.ca_file is None else ssl.create_default_context(cadata=self.ca_file)


def _fits_a_header(value: str) -> bool:
    return value != "" and value.isascii() and value.isprintable() and not value.endswith(" ")
