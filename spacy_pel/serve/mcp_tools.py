"""Serve tools to language models by the Model Context Protocol (needs the extra ``mcp``)."""

import signal
from pathlib import Path
from threading import Lock
from typing import Annotated

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from ..batch.link_docs import Linking
from ..corpora.doc_conversion import linked_document, make_doc
from ..corpora.document import Document
from ..curation import ground as grounding
from ..curation.ground import Meaning, Source, kb_of
from ..kb import KnowledgeBase
from ..kb.store import KB_FILE
from .messages import EntityRecord

_MAX_NAMES = 1000  # per call
_MAX_CHARACTERS = 100_000  # of a text
_INSTRUCTIONS = (
    "Ids of a knowledge base of {:,} entities. Never write an id from memory: take it from link, ground "
    "or search, and ground all names that you or others have written with an id."
)


class FoundMention(BaseModel):
    """A mention in a text, and its entity."""

    start: int = Field(description="Offset of its first character")
    end: int = Field(description="Offset after its last character")
    text: str
    label: str
    id: str = Field(description='"NIL" if the knowledge base lacks it')
    name: str | None = Field(description="Name of the entity")
    probability: float | None = Field(
        description="That the first candidate is correct; null unless calibrated"
    )
    codes: list[str] = Field(description="Codes of the entity in other vocabularies")


def tools_of(source: Source, linking: Linking | None = None) -> MCPServer:
    """Return a server with the tools for a KB or a linker.

    ``linking`` is the pipeline of the linker. Without it, there is no tool "link".
    """
    kb = kb_of(source)
    server = MCPServer("spacy_pel", instructions=_INSTRUCTIONS.format(len(kb)))
    one_call = Lock()  # each call runs in a thread; models and KBs are not thread-safe

    @server.tool()
    def search(
        words: Annotated[str, Field(min_length=1, max_length=200, description="Words of a name")],
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of entities")] = 10,
    ) -> list[EntityRecord]:
        """Find the entities whose names have all of the words, most similar names first.

        An id finds its entity.
        """
        with one_call:
            return [EntityRecord.of(entity) for entity in kb.search_names(words, limit)]

    @server.tool()
    def ground(
        names: Annotated[
            list[str], Field(max_length=_MAX_NAMES, description="Names, one entity each")
        ],
        n: Annotated[
            int, Field(ge=1, le=16, description="Maximum number of entities per name")
        ] = 5,
    ) -> list[list[Meaning]]:
        """Find the entities that names mean: for each name a list, most probable first.

        "probability" is the probability that the name means this entity and not the next one. If it is
        below 0.9, consider the others too.
        """
        with one_call:
            return grounding.ground(source, names, n)

    if linking is None:
        return server

    @server.tool()
    def link(
        text: Annotated[
            str, Field(max_length=_MAX_CHARACTERS, description="A text, such as a note")
        ],
    ) -> list[FoundMention]:
        """Find the mentions of entities in a text, and link each to its entity.

        Offsets count characters. Review mentions whose probability is below 0.9: "ground" gives other
        entities with the name.
        """
        with one_call, linking.nlp.memory_zone():
            doc = make_doc(linking.nlp, Document(text), linking.linker.spans_key)
            (doc,) = linking.docs([doc])
            mentions = linked_document(doc, linking.linker.spans_key)["mentions"]
            codes = {
                id: list(kb[id].xrefs) if id in kb else [] for id in {m["id"] for m in mentions}
            }
            return [FoundMention(**mention, codes=codes[mention["id"]]) for mention in mentions]

    return server


def serve_tools(folder: str, kb: Path | None = None, gpu_id: int = -1) -> None:
    """Serve the tools on stdin and stdout until stdin ends, or until Ctrl-C or SIGTERM.

    Args:
        folder: A KB, or the folder or name of a pipeline.
        kb: A KB that replaces the linker's.
        gpu_id: The GPU, or -1 for the CPU.
    """
    if (Path(folder) / KB_FILE).is_file():
        server = tools_of(KnowledgeBase.open(folder))
    else:
        linking = Linking(folder, kb, gpu_id=gpu_id)
        server = tools_of(linking.linker, linking)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_DFL
        )  # an exception would wait for the thread that reads stdin
    server.run()
