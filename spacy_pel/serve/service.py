"""One linker and one KB for all requests, each in a thread of its own.

One thread links: the model uses the whole processor, and spaCy's vocabulary is not made for several
threads. Requests are linked in turns: after a long document, or a few short ones, the thread may turn
to another client. Turns that wait are linked together, as one batch.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from starlette.exceptions import HTTPException

from ..documents import make_doc
from ..documents.docs import OverlappingMentions
from ..documents.document import Document, Mention
from ..jobs.link_docs import link_documents
from ..kb import Entity, KnowledgeBase
from ..pipeline.pipelines import linker_of
from .messages import LinkedDocument, LinkRequest
from .served import Limits
from .turns import FairThread

# The most characters of documents that are linked in one turn. A longer document has a turn of its own.
TURN_CHARACTERS = 2000
# The most characters that are linked together. So a client waits for a few turns at most, which take less
# time together.
BATCH_CHARACTERS = 4 * TURN_CHARACTERS
# The turns of one request that wait at once. The others of its client come in between.
TURNS_AT_ONCE = 4


class LinkedJSON(NamedTuple):
    """A linked document as the text of a ``LinkedDocument``, and the number of its mentions."""

    text: bytes
    mentions: int


class Piece(NamedTuple):
    """Consecutive documents of a request, and the number of the first of them."""

    first: int
    documents: list[Document]


class LinkingService:
    """Links documents and looks up entities within limits, for an event loop.

    Attributes:
        under_way: The number of requests of each client.
    """

    def __init__(self, nlp: Language, component: str = "proxy_linker", *, limits: Limits) -> None:
        """Start the threads.

        Args:
            nlp: The pipeline.
            component: The name of the linker in it.
            limits: The limits on requests.

        Raises:
            PelError: There is no linker, or its KB has no vectors of its encoder.
        """
        self.nlp = nlp
        self.component = component
        self.limits = limits
        self.under_way: Counter[str] = Counter()
        linker = linker_of(nlp, component)
        linker.index  # refuses a KB that does not fit now, not at the first request
        self._spans_key = linker.spans_key
        # A second one, so that look-ups do not wait for the model.
        self.kb = KnowledgeBase.open(linker.kb.path)
        # So that no client waits for what is loaded at the first use.
        self._linked([Piece(0, [Document("MS"), Document("MS", mentions=(Mention(0, 2, "MS"),))])])
        self._model = FairThread("model", self._linked_together, BATCH_CHARACTERS)
        self._look_ups = FairThread("kb", _called)
        self._reading = FairThread("reading", _called)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """Count a request as under way. One client may have half of them.

        Raises:
            HTTPException: 429: The client has too many. 503: All have too many.
        """
        if self.under_way[client] >= max(1, self.limits.waiting // 2):
            raise _refused(429, "you have too many requests under way")
        if self.under_way.total() >= self.limits.waiting:
            raise _refused(503, "the server is busy")
        self.under_way[client] += 1
        try:
            yield
        finally:
            self.under_way[client] -= 1
            if not self.under_way[client]:
                del self.under_way[client]

    async def read(self, client: str, body: bytes) -> LinkRequest:
        """The request in a body. Large ones take long, so clients take turns. See ``LinkRequest.read``."""
        return await self._reading.run(
            client, len(body), partial(LinkRequest.read, body, self.limits)
        )

    async def link(self, client: str, documents: Sequence[Document]) -> list[LinkedJSON]:
        """Link documents in turns.

        Returns:
            The documents in the form in which ``pel link`` writes JSONL.

        Raises:
            HTTPException: 422: Mentions overlap.
        """
        places = asyncio.Semaphore(TURNS_AT_ONCE)

        async def linked(piece: Piece) -> list[LinkedJSON]:
            async with places:
                return await self._model.run(client, _characters(piece.documents), piece)

        turns = [asyncio.ensure_future(linked(piece)) for piece in _pieces(documents)]
        try:
            return [document for linked in await asyncio.gather(*turns) for document in linked]
        finally:
            for turn in turns:  # after an error nobody waits for the others
                turn.cancel()

    async def entity(self, client: str, id: str) -> Entity | None:
        """The entity with this concept id, alternative id or retired id."""
        return await self._look_ups.run(client, 0, partial(self._entity, id))

    async def search(self, client: str, text: str, limit: int) -> list[Entity]:
        """The entities whose names hold all words of the text."""
        return await self._look_ups.run(client, 0, partial(self.kb.found, text, limit))

    def close(self) -> None:
        """Wait for the work under way, and close the KB."""
        for thread in (self._reading, self._model, self._look_ups):
            thread.close()
        self.kb.close()

    def _entity(self, id: str) -> Entity | None:
        number = self.kb.number(id)
        return None if number is None else self.kb.entities([number])[0]

    def _linked_together(self, pieces: Sequence[Piece]) -> list[list[LinkedJSON] | Exception]:
        """The linked documents of each piece, or why they cannot be linked."""
        try:
            linked = iter(self._linked(pieces))
            return [list(islice(linked, len(piece.documents))) for piece in pieces]
        except Exception as error:
            if len(pieces) == 1:
                return [error]
            return [result for piece in pieces for result in self._linked_together([piece])]

    def _linked(self, pieces: Sequence[Piece]) -> list[LinkedJSON]:
        """The documents of all pieces, linked as one batch."""
        with self.nlp.memory_zone():  # else spaCy's memory of words seen would grow
            docs = [
                self._doc(number, document)
                for piece in pieces
                for number, document in enumerate(piece.documents, piece.first)
            ]
            records = link_documents(self.nlp, docs, component=self.component, batch_size=len(docs))
            return list(map(_as_json, records))

    def _doc(self, number: int, document: Document) -> Doc:
        try:
            return make_doc(self.nlp, document, self._spans_key)
        except OverlappingMentions as error:
            reason = (
                f"{error.problem}, which this server does not take; send each of two mentions that "
                "overlap in a document of its own"
            )
        except ValueError as error:
            reason = str(error).splitlines()[0]
        raise HTTPException(422, f"document {number}: {reason}")


def client_at(peer: tuple[str, int | None] | None) -> str:
    """Name the client at an address (host, port): the host, or the /64 network of an IPv6 one."""
    host = peer[0] if peer else ""
    if ":" not in host:
        return host
    return str(ipaddress.ip_network(f"{host}/64", strict=False))


def _refused(status: int, reason: str) -> HTTPException:
    return HTTPException(status, f"{reason}; try again in a few seconds", {"retry-after": "2"})


def _pieces(documents: Sequence[Document]) -> Iterator[Piece]:
    """The documents in their order, as many in a piece as a turn takes, and at least one."""
    piece = Piece(0, [])
    for number, document in enumerate(documents):
        if piece.documents and _characters([*piece.documents, document]) > TURN_CHARACTERS:
            yield piece
            piece = Piece(number, [])
        piece.documents.append(document)
    if piece.documents:
        yield piece


def _characters(documents: Sequence[Document]) -> int:
    return sum(len(document.text) for document in documents)


def _as_json(record: dict[str, Any]) -> LinkedJSON:
    linked = LinkedDocument.model_validate(record)
    return LinkedJSON(linked.model_dump_json(exclude_unset=True).encode(), len(linked.mentions))


def _called(calls: list[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]
