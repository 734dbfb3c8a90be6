"""The typed messages of the API. Its documents are those of ``pel link`` in JSONL."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from ..documents.document import Document
from ..documents.json_formats import document_of
from .served import Limits

TEXT = "Her MS relapsed with a new brain lesion."


def _of_characters(text: str) -> str:
    """The text. JSON may hold half of a surrogate pair ("\\ud800"), which is an error here."""
    try:
        text.encode("utf8")
    except UnicodeEncodeError:
        raise PydanticCustomError("surrogate", "half of a surrogate pair is missing") from None
    return text


_Text = Annotated[str, AfterValidator(_of_characters)]


_STRICT = ConfigDict(strict=True, extra="forbid")  # no 3.0 for 3, no unknown field


class GivenMention(BaseModel):
    """The place of a mention, in characters (Unicode code points, not UTF-16 units or bytes)."""

    model_config = _STRICT
    start: int = Field(ge=0, description="Place of its first character", examples=[4])
    end: int = Field(gt=0, description="Place after its last character", examples=[6])
    label: _Text = Field("", description='Its label; "MENTION" if empty', examples=["Disease"])


class GivenDocument(BaseModel):
    """A text, and its mentions where they are known."""

    model_config = _STRICT
    text: _Text = Field(examples=[TEXT])
    id: _Text | int | None = Field(None, description="Returned as it is", examples=["note-1"])
    mentions: list[GivenMention] | None = Field(
        None,
        description="The mentions to link; if the list is given, even empty, no others are found",
    )
    _document: Document = PrivateAttr()  # as ``pel link`` has it

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> GivenDocument:
        limits = info.context or Limits()
        _check_number(len(self.text), limits.characters, "characters of text")
        _check_number(len(self.mentions or ()), limits.mentions, "mentions")
        try:
            self._document = document_of(self.model_dump(exclude_none=True))
        except ValueError as error:
            raise _wrong(str(error).splitlines()[0]) from None
        return self


class LinkRequest(BaseModel):
    """Documents to link."""

    model_config = _STRICT
    documents: list[GivenDocument] = Field(
        min_length=1,
        examples=[[{"text": TEXT}, {"text": TEXT, "mentions": [{"start": 4, "end": 6}]}]],
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> LinkRequest:
        _check_number(len(self.documents), (info.context or Limits()).documents, "documents")
        return self

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> LinkRequest:
        """The request in a body; HTTPException (422) if it is not what is asked for."""
        parsed = json.loads(body)
        try:
            return cls.model_validate(parsed, from_attributes=True, context=limits)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            raise HTTPException(422, first_fault(faults)) from None


def _check_number(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise _wrong(f"{number:,} {what}; at most {limit:,} are taken")


def _wrong(reason: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{reason}", {"reason": reason})


def first_fault(faults: list[dict[str, Any]]) -> str:
    """Say the first of pydantic's errors and the number of others, without repeating what was sent."""
    first, *others = faults
    place = "the body"
    if first["loc"]:  # ("documents", 0, "text") as "documents[0].text"
        named = [part for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
        parts = [f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in named]
        place = "".join(parts).lstrip(".") or place
    if first["type"] == "wrong":
        place = f"document {first['loc'][1]}" if first["loc"] else place
    more = f" (and {len(others):,} more)" if others else ""
    return f"{place}: {first['msg']}{more}".encode("utf8", "replace").decode("utf8")


class Candidate(BaseModel):
    """An entity that a mention may mean. What a pipeline does not have is absent."""

    id: str
    name: str
    score: float = Field(description="Of the retriever")
    rerank_score: float | None = Field(None, description="null if the reranker did not read it")
    probability: float | None = Field(None, description="That it is right, of the first 8")
    as_in: str | None = Field(None, description="The learnt mention that is nearest, in its text")


class LinkedMention(BaseModel):
    """A mention and its entity."""

    start: int = Field(description="Place of its first character")
    end: int = Field(description="Place after its last character")
    text: str
    label: str
    id: str = Field(description='"NIL" if the knowledge base lacks it; "" if none is found')
    name: str | None = Field(description="Name of the entity; null for NIL")
    types: list[str] = Field(description="Semantic types of the entity; empty for NIL")
    xrefs: dict[str, list[str]] | None = Field(None, description="Its codes, by vocabulary")
    score: float | None = Field(description="Score of the best candidate")
    probability: float | None = Field(description="That it is right; null unless calibrated")
    candidates: list[Candidate] = Field(description="Best first; also for NIL")


class LinkedDocument(BaseModel):
    """A text and its mentions, in the order of the text."""

    id: str | int | None = None
    text: str
    mentions: list[LinkedMention]


class LinkResponse(BaseModel):
    """The documents of the request, in their order."""

    documents: list[LinkedDocument]


class EntityRecord(BaseModel):
    """An entity of the knowledge base."""

    id: str
    name: str
    synonyms: list[str]
    types: list[str]
    definition: str | None
    parents: list[str] = Field(description="Ids of broader entities")
    alternative_ids: list[str] = Field(description="Other ids, also retired ones")
    cross_references: list[str] = Field(examples=[["MSH:D009103"]])
    sources: list[str] = Field(examples=[["MSH", "SNOMEDCT_US"]])
    url: str | None = Field(description="Of its page at the source; null if none is configured")


class SearchResponse(BaseModel):
    """The entities found; names most like the query come first."""

    entities: list[EntityRecord]


class Health(BaseModel):
    """What is served."""

    status: str = Field(examples=["ok"])
    pipeline: str = Field(examples=["en_demo_proxy_linker 0.1.0"])
    entities: int = Field(description="Number of entities in the knowledge base")
    finds_mentions: bool = Field(description="Whether it has components that may find mentions")


class Problem(BaseModel):
    """The reason why there is no answer."""

    detail: str = Field(examples=["document 0: the mention 40-41 is not in the 40 characters"])
