"""Tools of the Model Context Protocol for language models (needs the extra ``mcp``)."""

import signal
from pathlib import Path
from threading import Lock
from typing import Annotated

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from ..batch.link_docs import Linking
from ..corpora import make_doc
from ..corpora.doc_conversion import linked_document
from ..corpora.document import Document
from ..curation import check_ids as checking
from ..curation.check_ids import Meaning, Source, Verdict, kb_of
from ..kb import KnowledgeBase
from ..kb.store import KB_FILE
from .messages import EntityRecord

_MOST = 1000  # names or pairs of a call
_CHARACTERS = 100_000  # of a text
_INSTRUCTIONS = (
    "Ids of a knowledge base of {:,} entities. Never write an id from memory: take it from link, ground "
    "or search, and check the pairs of name and id that you or others have written."
)


class NamedId(BaseModel):
    """A name and the id that it was given."""

    name: str = Field(description="The name as it is written", examples=["multiple sclerosis"])
    id: str = Field(description="The id that stands with it", examples=["D009103"])


class FoundMention(BaseModel):
    """A mention in a text, and its entity."""

    start: int = Field(description="Place of its first character")
    end: int = Field(description="Place after its last character")
    text: str
    label: str
    id: str = Field(description='"NIL" if the knowledge base lacks it')
    name: str | None = Field(description="Name of the entity")
    probability: float | None = Field(
        description="That the first candidate is right; null unless calibrated"
    )
    codes: list[str] = Field(description="Of the entity in other vocabularies")


def tools_of(source: Source, linking: Linking | None = None) -> MCPServer:
    """Return a server with the tools, of a KB or the linker of a pipeline.

    ``linking`` is the pipeline of the linker. Without it there is no tool "link".
    """
    kb = kb_of(source)
    server = MCPServer("spacy_pel", instructions=_INSTRUCTIONS.format(len(kb)))
    one_call = Lock()  # each call has a thread, and models and look-ups are for one at a time

    @server.tool()
    def search(
        words: Annotated[str, Field(min_length=1, max_length=200, description="Words of a name")],
        limit: Annotated[int, Field(ge=1, le=100, description="The most entities")] = 10,
    ) -> list[EntityRecord]:
        """Find the entities whose names hold all of the words, the most similar name first.

        An id finds its entity.
        """
        with one_call:
            return [EntityRecord.of(entity) for entity in kb.search_names(words, limit)]

    @server.tool()
    def ground(
        names: Annotated[list[str], Field(max_length=_MOST, description="Names, one entity each")],
        n: Annotated[int, Field(ge=1, le=16, description="The most entities for each name")] = 5,
    ) -> list[list[Meaning]]:
        """Find the entities that names mean: for each name a list, the most probable first.

        "probability" is the probability that the entity is meant and not its best rival; below 0.9 look at the
        others too.
        """
        with one_call:
            return checking.ground(source, names, n)

    @server.tool()
    def check(
        pairs: Annotated[list[NamedId], Field(max_length=_MOST, description="What to check")],
    ) -> list[Verdict]:
        """Check whether ids exist and mean the names that they were given: a verdict for each pair.

        "correct"; "unknown id": there is no such id; "retired": it was replaced by another; "other name":
        the id exists and means something else, which is "means". "proposed" is the id that the name
        needs, empty if no entity is near, and "probability" how probable that is.
        """
        with one_call:
            return list(checking.check(source, ((pair.name, pair.id) for pair in pairs)))

    if linking is None:
        return server

    @server.tool()
    def link(
        text: Annotated[str, Field(max_length=_CHARACTERS, description="A text, such as a note")],
    ) -> list[FoundMention]:
        """Find the mentions of entities in a text, and link each to the entity that it means.

        Offsets count characters. Look again at mentions whose probability is below 0.9: "ground" gives
        other entities with the name.
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


def serve_tools(
    folder: str, component: str = "proxy_linker", kb: Path | None = None, gpu_id: int = -1
) -> None:
    """Serve the tools on stdin and stdout until stdin ends, or Ctrl-C or SIGTERM comes.

    Args:
        folder: A KB, or a pipeline by its folder or name.
        component: The name of the linker in the pipeline.
        kb: The KB that takes the place of the linker's own.
        gpu_id: The GPU that is used, or -1.
    """
    if (Path(folder) / KB_FILE).is_file():
        server = tools_of(KnowledgeBase.open(folder))
    else:
        linking = Linking(folder, component, kb, gpu_id=gpu_id)
        server = tools_of(linking.linker, linking)
    for number in (signal.SIGINT, signal.SIGTERM):  # an error would wait for the thread that reads
        signal.signal(number, signal.SIG_DFL)
    server.run()
