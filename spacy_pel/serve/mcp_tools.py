"""``ground`` and ``check`` as tools of the Model Context Protocol (needs the extra ``mcp``)."""

import signal
from threading import Lock
from typing import Annotated

from mcp.server import MCPServer
from pydantic import BaseModel, Field

from ..curation import check_ids as checking
from ..curation.check_ids import Meaning, Source, Verdict, kb_of

_MOST = 1000  # names or pairs of a call
_INSTRUCTIONS = (
    "Ids of a knowledge base of {:,} entities. Never write an id from memory: take it from ground, and "
    "check the pairs of name and id that you or others have written."
)


class NamedId(BaseModel):
    """A name and the id that it was given."""

    name: str = Field(description="The name as it is written", examples=["multiple sclerosis"])
    id: str = Field(description="The id that stands with it", examples=["D009103"])


def tools_of(source: Source) -> MCPServer:
    """A server with the two tools, of a KB or the linker of a pipeline."""
    server = MCPServer("spacy_pel", instructions=_INSTRUCTIONS.format(len(kb_of(source))))
    one_call = Lock()  # each call has a thread, and models and look-ups are for one at a time

    @server.tool()
    def ground(
        names: Annotated[list[str], Field(max_length=_MOST, description="Names, one entity each")],
        n: Annotated[int, Field(ge=1, le=16, description="The most entities for each name")] = 5,
    ) -> list[list[Meaning]]:
        """Find the entities that names mean: for each name a list, the most probable first.

        "sure" is the probability that the entity is meant and not its best rival; below 0.9 look at the
        others too.
        """
        with one_call:
            return checking.ground(source, names, n)

    @server.tool()
    def check(
        pairs: Annotated[list[NamedId], Field(max_length=_MOST, description="What to check")],
    ) -> list[Verdict]:
        """Check whether ids exist and mean the names that they were given: a verdict for each pair.

        "right"; "unknown id": there is no such id; "retired": it was replaced by another; "other name":
        the id exists and means something else, which is "means". "proposed" is the id that the name
        needs, empty if no entity is near, and "sure" how probable that is.
        """
        with one_call:
            return list(checking.check(source, ((pair.name, pair.id) for pair in pairs)))

    return server


def serve_tools(source: Source) -> None:
    """Serve the tools on stdin and stdout until stdin ends, or Ctrl-C or SIGTERM comes."""
    for number in (signal.SIGINT, signal.SIGTERM):  # an error would wait for the thread that reads
        signal.signal(number, signal.SIG_DFL)
    tools_of(source).run()
