"""The typed messages of the API. Its documents are those of ``pel link`` in JSONL."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from starlette.exceptions import HTTPException

from ..corpora.document import Document, mention_at
from ..errors import PelError
from .served import Limits

TEXT = "Her MS relapsed with a new brain lesion."
_STRICT = ConfigDict(strict=True, extra="forbid")  # no 3.0 for 3, no unknown field


class GivenMention(BaseModel):
    """The place of a mention, in characters (Unicode code points, not UTF-16 units or bytes)."""

    model_config = _STRICT
    start: int = Field(ge=0, description="Place of its first character", examples=[4])
    end: int = Field(gt=0, description="Place after its last character", examples=[6])
    label: str = Field("", description='Its label; "MENTION" if empty', examples=["Disease"])


class GivenDocument(BaseModel):
    """A text, and its mentions where they are known."""

    model_config = _STRICT
    text: str = Field(examples=[TEXT])
    id: str | int | None = Field(None, description="Returned as it is", examples=["note-1"])
    mentions: list[GivenMention] | None = Field(
        None,
        description="The mentions to link; if the list is given, even empty, no others are found",
    )

    def document(self, limits: Limits) -> Document:
        """The document; PelError if it is larger than is taken, or a mention is not in its text."""
        _check_number(len(self.text), limits.characters, "characters of text")
        _check_number(len(self.mentions or ()), limits.mentions, "mentions")
        if self.mentions is None:
            return Document(self.text, self.id)
        mentions = (mention_at(self.text, m.start, m.end, m.label) for m in self.mentions)
        return Document(self.text, self.id, tuple(mentions))


class LinkRequest(BaseModel):
    """Documents to link."""

    model_config = _STRICT
    documents: list[GivenDocument] = Field(
        min_length=1,
        examples=[[{"text": TEXT}, {"text": TEXT, "mentions": [{"start": 4, "end": 6}]}]],
    )
    _documents: list[Document] = PrivateAttr(default_factory=list)  # as ``pel link`` has them

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> LinkRequest:
        """The request in a body; HTTPException (400, 422) if it is not what is asked for."""
        try:
            request = cls.model_validate_json(body)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_input=False)
            if faults[0]["type"] == "json_invalid":
                reason = f"the body is not JSON: {faults[0]['ctx']['error']}"
                raise HTTPException(400, reason) from None
            raise HTTPException(422, first_fault(faults)) from None
        place = ""
        try:
            _check_number(len(request.documents), limits.documents, "documents")
            for number, given in enumerate(request.documents):
                place = f"document {number}: "
                request._documents.append(given.document(limits))
        except PelError as error:
            raise HTTPException(422, f"{place}{error}") from None
        return request


def _check_number(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise PelError(f"{number:,} {what}", f"at most {limit:,} are taken")


def first_fault(faults: list[dict[str, Any]]) -> str:
    """Say the first of pydantic's errors and the number of others, without repeating what was sent."""
    first, *others = faults
    # ("documents", 0, "text") as "documents[0].text"
    named = [part for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in named]
    more = f" (and {len(others):,} more)" if others else ""
    return f"{''.join(parts).lstrip('.') or 'the body'}: {first['msg']}{more}"


class Candidate(BaseModel):
    """An entity that a mention may mean. What a pipeline does not have is absent."""

    id: str
    name: str
    score: float = Field(description="Of the retriever")
    rerank_score: float | None = Field(None, description="null if the reranker did not read it")
    probability: float | None = Field(None, description="That it is right, of the first 8")
    correction: str | None = Field(None, description="What a person decided, of the first one")
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
