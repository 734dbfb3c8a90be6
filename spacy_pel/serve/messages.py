"""The typed messages of the API. Its documents are those of ``pel link`` in JSONL."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from starlette.exceptions import HTTPException

from ..corpora.document import Document, mention_at
from ..errors import PelError
from ..kb import Entity
from .entity_pages import entity_page
from .limits import Limits

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


class LimitedMessage(BaseModel):
    """What a client sends, within the limits of the server."""

    model_config = _STRICT

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> LimitedMessage:
        """Return the message in a body; HTTPException (400, 422) if it is not what is asked for."""
        try:
            message = cls.model_validate_json(body)
            message.check(limits)
        except ValidationError as error:
            faults: list[Any] = error.errors(include_url=False, include_input=False)
            if faults[0]["type"] == "json_invalid":
                reason = f"the body is not JSON: {faults[0]['ctx']['error']}"
                raise HTTPException(400, reason) from None
            raise HTTPException(422, first_fault(faults)) from None
        except PelError as error:
            raise HTTPException(422, str(error)) from None
        return message

    def check(self, limits: Limits) -> None:
        """Raise PelError if the message asks for more than is taken, or is wrong in itself."""
        raise NotImplementedError


class LinkRequest(LimitedMessage):
    """Documents to link."""

    documents: list[GivenDocument] = Field(
        min_length=1,
        examples=[[{"text": TEXT}, {"text": TEXT, "mentions": [{"start": 4, "end": 6}]}]],
    )
    _documents: list[Document] = PrivateAttr(default_factory=list)  # as ``pel link`` has them

    def check(self, limits: Limits) -> None:
        _check_number(len(self.documents), limits.documents, "documents")
        for number, given in enumerate(self.documents):
            try:
                self._documents.append(given.document(limits))
            except PelError as error:
                raise error.at(f"document {number}") from None


class GivenCorrection(BaseModel):
    """What a person decided about a mention."""

    model_config = _STRICT
    text: str = Field(description="The text of the mention", examples=[TEXT])
    start: int = Field(ge=0, description="Place of its first character", examples=[4])
    end: int = Field(gt=0, description="Place after its last character", examples=[6])
    id: str = Field(
        min_length=1, description='Id of its entity, or "NIL": there is none', examples=["D009103"]
    )
    label: str = Field("", description="Its label", examples=["Disease"])
    scope: Literal["", "always", "label", "text"] = Field(
        "",
        description='Where the correction holds: "always"; "label": for mentions with this label; "text": '
        'in this text and in texts alike; "": always if the name has no other meaning, else as "text"',
    )


class CorrectionRequest(LimitedMessage):
    """Corrections to store."""

    corrections: list[GivenCorrection] = Field(min_length=1)

    def check(self, limits: Limits) -> None:
        _check_number(len(self.corrections), limits.mentions, "corrections")
        for number, given in enumerate(self.corrections):
            try:
                _check_number(len(given.text), limits.characters, "characters of text")
                mention_at(given.text, given.start, given.end)
                if given.scope == "label" and not given.label:
                    raise PelError("no label is given", 'give one, or the scope "always"')
            except PelError as error:
                raise error.at(f"correction {number}") from None


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
    matched_name: str | None = Field(None, description="The name that is most like the mention")
    why: str | None = Field(None, description="What the decision rests on")
    correction: str | None = Field(None, description="What a person decided, of the first one")
    as_in: str | None = Field(None, description="The learnt mention that is nearest, in its text")
    matched_name: str | None = Field(None, description="Its name most similar to the mention")
    why: str | None = Field(None, description="What the decision rests on, of the first 8")


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


class StoredCorrection(BaseModel):
    """A correction in the KB."""

    number: int = Field(description="By which `pel fix` takes it back")
    name: str
    id: str
    scope: str


class CorrectionResponse(BaseModel):
    """The corrections that were stored."""

    stored: list[StoredCorrection]


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
    url: str | None = Field(description="Of its page at the source; null if it is unknown")

    @classmethod
    def of(cls, entity: Entity, page: str | None = None) -> EntityRecord:
        """Return the record of an entity; for ``page`` see ``entity_page``."""
        return cls(
            id=entity.concept_id,
            name=entity.canonical_name,
            synonyms=list(entity.names[1:]),
            types=list(entity.types),
            definition=entity.definition,
            parents=list(entity.parents),
            alternative_ids=[*entity.alt_ids, *entity.retired_ids],
            cross_references=list(entity.xrefs),
            sources=list(entity.sources),
            url=entity_page(entity.concept_id, page),
        )


class SearchResponse(BaseModel):
    """The entities found; names most like the query come first."""

    entities: list[EntityRecord]


class Health(BaseModel):
    """What is served."""

    status: str = Field(examples=["ok"])
    pipeline: str = Field(examples=["en_demo_proxy_linker 0.1.0"])
    entities: int = Field(description="Number of entities in the knowledge base")
    finds_mentions: bool = Field(description="Whether it has components that may find mentions")
    stores_corrections: bool = Field(description="Whether it takes POST /corrections")


class Problem(BaseModel):
    """The reason why there is no answer."""

    detail: str = Field(examples=["document 0: the mention 40-41 is not in the 40 characters"])
