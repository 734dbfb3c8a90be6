"""Define the typed messages of the API. Documents have the JSONL format of ``pel link``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..corpora.document import Document, mention_at
from ..curation.fix import Correction
from ..errors import PelError
from ..kb import Entity, KnowledgeBase
from ..spans import NIL
from .entity_pages import entity_page
from .limits import Limits

TEXT = "Her MS relapsed with a new brain lesion."
_STRICT = ConfigDict(strict=True, extra="forbid")  # no 3.0 for 3, no unknown field


class GivenMention(BaseModel):
    """The offsets of a mention, in characters (Unicode code points, not UTF-16 units or bytes)."""

    model_config = _STRICT
    start: int = Field(ge=0, description="Offset of its first character", examples=[4])
    end: int = Field(gt=0, description="Offset after its last character", examples=[6])
    label: str = Field("", description='Its label; "MENTION" if empty', examples=["Disease"])


class GivenDocument(BaseModel):
    """A text, and its mentions if they are known."""

    model_config = _STRICT
    text: str = Field(examples=[TEXT])
    id: str | int | None = Field(None, description="Returned unchanged", examples=["note-1"])
    mentions: list[GivenMention] | None = Field(
        None, description="The mentions to link; null: the pipeline finds them"
    )


class LinkRequest(BaseModel):
    """Documents to link."""

    model_config = _STRICT
    documents: list[GivenDocument] = Field(
        min_length=1,
        examples=[[{"text": TEXT}, {"text": TEXT, "mentions": [{"start": 4, "end": 6}]}]],
    )

    def checked_documents(self, limits: Limits) -> list[Document]:
        """Return the documents.

        Raises:
            PelError: The documents exceed a limit, or a mention is not in its text.
        """
        _check_number(len(self.documents), limits.documents, "documents")
        documents = []
        for number, document in enumerate(self.documents):
            try:
                _check_number(len(document.text), limits.characters, "characters of text")
                _check_number(len(document.mentions or ()), limits.mentions, "mentions")
                mentions = None
                if document.mentions is not None:
                    mentions = tuple(
                        mention_at(document.text, m.start, m.end, m.label)
                        for m in document.mentions
                    )
            except PelError as error:
                raise error.at(f"document {number}") from None
            documents.append(Document(document.text, document.id, mentions))
        return documents


class GivenCorrection(BaseModel):
    """The entity that a person chose for a mention."""

    model_config = _STRICT
    text: str = Field(description="The text of the mention", examples=[TEXT])
    start: int = Field(ge=0, description="Offset of its first character", examples=[4])
    end: int = Field(gt=0, description="Offset after its last character", examples=[6])
    id: str = Field(
        min_length=1, description='Id of its entity, or "NIL": it has none', examples=["D009103"]
    )
    label: str = Field("", description="Its label", examples=["Disease"])
    scope: Literal["", "always", "label", "text"] = Field(
        "",
        description='Where the correction applies: "always"; "label": to mentions with this label; "text": '
        'in this text and similar texts; "": "always" if the name has no other meaning, else "text"',
    )


class CorrectionRequest(BaseModel):
    """Corrections to store."""

    model_config = _STRICT
    corrections: list[GivenCorrection] = Field(min_length=1)

    def checked_corrections(self, kb: KnowledgeBase, limits: Limits) -> list[Correction]:
        """Return the corrections.

        Raises:
            PelError: The corrections exceed a limit, or one is invalid.
        """
        _check_number(len(self.corrections), limits.mentions, "corrections")
        corrections = []
        for number, correction in enumerate(self.corrections):
            text, start, end = correction.text, correction.start, correction.end
            try:
                _check_number(len(text), limits.characters, "characters of text")
                mention_at(text, start, end)
                if correction.scope == "label" and not correction.label:
                    raise PelError("no label is given", 'give one, or the scope "always"')
                if any("\ud800" <= character <= "\udfff" for character in text):
                    raise PelError("the text has a lone surrogate", "write the whole character")
                if correction.id != NIL and correction.id not in kb:
                    raise PelError("the knowledge base has no such id", "search for the entity")
            except PelError as error:
                raise error.at(f"correction {number}") from None
            corrections.append(
                Correction(
                    text[start:end],
                    correction.id,
                    correction.scope,
                    correction.label,
                    text,
                    start,
                    end,
                )
            )
        return corrections


def _check_number(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise PelError(f"{number:,} {what}", f"send at most {limit:,}")


def validation_message(errors: Sequence[Any]) -> str:
    """Return the first of pydantic's errors and the number of others, without the client's input."""
    first, *others = errors
    # ("body", "documents", 0, "text") becomes "documents[0].text".
    names = [part for part in first["loc"][1:] if isinstance(part, int) or part.isidentifier()]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in names]
    more = f" (and {len(others):,} more)" if others else ""
    return f"{''.join(parts).lstrip('.') or 'the body'}: {first['msg']}{more}"


class Candidate(BaseModel):
    """An entity that a mention may mean. Fields that the pipeline does not compute are absent."""

    id: str
    name: str
    score: float = Field(description="Score of the retriever")
    rerank_score: float | None = Field(
        None, description="Score of the reranker; null if not reranked"
    )
    probability: float | None = Field(None, description="That it is correct, for the first 8")
    correction: str | None = Field(
        None, description="The correction applied, for the first candidate"
    )
    as_in: str | None = Field(None, description="The most similar learned mention, in its text")
    matched_name: str | None = Field(
        None, description="Its name that is most similar to the mention"
    )
    why: str | None = Field(None, description="Reasons for its rank, for the first 8")


class LinkedMention(BaseModel):
    """A mention and its entity."""

    start: int = Field(description="Offset of its first character")
    end: int = Field(description="Offset after its last character")
    text: str
    label: str
    id: str = Field(description='"NIL" if the knowledge base lacks it; "" without candidates')
    name: str | None = Field(description="Name of the entity; null for NIL")
    types: list[str] = Field(description="Semantic types of the entity; empty for NIL")
    xrefs: dict[str, list[str]] | None = Field(None, description="Its codes, by vocabulary")
    score: float | None = Field(description="Score of the best candidate")
    probability: float | None = Field(
        description="That the link is correct; null unless calibrated"
    )
    candidates: list[Candidate] = Field(description="Best first; also for NIL")


class LinkedDocument(BaseModel):
    """A text and its mentions, in the order of the text."""

    id: str | int | None = None
    text: str
    mentions: list[LinkedMention]


class StoredCorrection(BaseModel):
    """A correction in the KB."""

    number: int = Field(description="Number for `pel fix --undo`")
    name: str
    id: str
    scope: str


class CorrectionResponse(BaseModel):
    """The stored corrections."""

    stored: list[StoredCorrection]


class LinkResponse(BaseModel):
    """The documents of the request, in the same order."""

    documents: list[LinkedDocument]


class EntityRecord(BaseModel):
    """An entity of the knowledge base."""

    id: str
    name: str
    synonyms: list[str]
    types: list[str]
    definition: str | None
    parents: list[str] = Field(description="Ids of broader entities")
    alternative_ids: list[str] = Field(description="Other ids, including retired ones")
    cross_references: list[str] = Field(examples=[["MSH:D009103"]])
    sources: list[str] = Field(examples=[["MSH", "SNOMEDCT_US"]])
    url: str | None = Field(description="Its page at the source; null if unknown")

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
    """The entities found, most similar names first."""

    entities: list[EntityRecord]


class Health(BaseModel):
    """What the server serves."""

    status: str = Field(examples=["ok"])
    pipeline: str = Field(examples=["en_demo_proxy_linker 0.1.0"])
    entities: int = Field(description="Number of entities in the knowledge base")
    finds_mentions: bool = Field(description="Whether the pipeline can find mentions itself")
    stores_corrections: bool = Field(description="Whether it accepts POST /corrections")


class Problem(BaseModel):
    """An error."""

    detail: str = Field(examples=["document 0: the mention 40-41 is not in the 40 characters"])
