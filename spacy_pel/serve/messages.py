"""What the API takes and gives, typed; its documents are those of ``pel link``'s JSONL."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

TEXT = "Her MS relapsed with a new brain lesion."


def _of_characters(text: str) -> str:
    """The text; an error if it has halves of surrogate pairs, as JSON may ("\\ud800")."""
    try:
        text.encode("utf8")
    except UnicodeEncodeError:
        raise PydanticCustomError("surrogate", "half of a surrogate pair is no text") from None
    return text


_Text = Annotated[str, AfterValidator(_of_characters)]


class _Given(BaseModel):
    """Taken as it is written: no 3.0 for 3, no field that means nothing."""

    model_config = ConfigDict(strict=True, extra="forbid")


class GivenMention(_Given):
    """Where a mention is, in characters (Unicode code points, not UTF-16 units or bytes)."""

    start: int = Field(ge=0, description="Its first character", examples=[4])
    end: int = Field(gt=0, description="The character after its last", examples=[6])
    label: _Text = Field("", description='Its label; "MENTION" if empty', examples=["Disease"])


class GivenDocument(_Given):
    """A text, with its mentions if they are known."""

    text: _Text = Field(examples=[TEXT])
    id: _Text | int | None = Field(None, description="Given back", examples=["note-1"])
    mentions: list[GivenMention] | None = Field(
        None, description="If given, be it none, no others are looked for"
    )


class LinkRequest(_Given):
    """Documents to link."""

    documents: list[GivenDocument] = Field(
        min_length=1,
        examples=[[{"text": TEXT}, {"text": TEXT, "mentions": [{"start": 4, "end": 6}]}]],
    )


class Candidate(BaseModel):
    """An entity that a mention may mean."""

    id: str = Field(examples=["C0026769"])
    name: str = Field(examples=["multiple sclerosis"])
    score: float = Field(description="Of the retriever", examples=[0.91])
    rerank_score: float | None = Field(
        None, description="Of the reranker; null if it has not seen it, absent if there is none"
    )
    name_match: bool | None = Field(
        None, description="Whether the mention is one of its names; absent if names do not count"
    )


class LinkedMention(BaseModel):
    """A mention and what it means."""

    start: int = Field(description="Its first character (code point)", examples=[4])
    end: int = Field(description="The character after its last", examples=[6])
    text: str = Field(examples=["MS"])
    label: str = Field(examples=["Disease"])
    id: str = Field(
        description='Of the best entity; "NIL": the knowledge base lacks it; "" if there is none',
        examples=["C0026769"],
    )
    name: str | None = Field(description="Its name; null of NIL", examples=["multiple sclerosis"])
    score: float | None = Field(description="Of the best candidate", examples=[0.91])
    probability: float | None = Field(
        description="That the best candidate is right; null unless calibrated", examples=[0.88]
    )
    candidates: list[Candidate] = Field(description="Best first, also of NIL")


class LinkedDocument(BaseModel):
    """A text and its mentions, in the order of the text."""

    id: str | int | None = None
    text: str = Field(examples=[TEXT])
    mentions: list[LinkedMention]


class LinkResponse(BaseModel):
    """The documents of the request, in its order."""

    documents: list[LinkedDocument]


class EntityRecord(BaseModel):
    """An entity of the knowledge base."""

    id: str = Field(examples=["C0026769"])
    name: str = Field(examples=["multiple sclerosis"])
    synonyms: list[str] = Field(examples=[["MS", "disseminated sclerosis"]])
    types: list[str] = Field(examples=[["Disease or Syndrome"]])
    definition: str | None
    parents: list[str] = Field(description="Ids of broader entities")
    alternative_ids: list[str] = Field(description="Also retired ones; each finds this entity")
    cross_references: list[str] = Field(examples=[["MSH:D009103"]])
    sources: list[str] = Field(examples=[["MSH", "SNOMEDCT_US"]])
    url: str | None = Field(description="Its page at the source; null if none was configured")


class SearchResponse(BaseModel):
    """The entities found, those named most like the query first."""

    entities: list[EntityRecord]


class Health(BaseModel):
    """What is served."""

    status: str = Field(examples=["ok"])
    pipeline: str = Field(examples=["en_demo_proxy_linker 0.1.0"])
    entities: int = Field(description="In the knowledge base", examples=[540])
    finds_mentions: bool = Field(
        description="Whether the pipeline has components that may find mentions"
    )


class Problem(BaseModel):
    """Why there is no answer, in words."""

    detail: str = Field(
        examples=["document 0: the mention 40-41 is not in the 40 characters of text"]
    )
