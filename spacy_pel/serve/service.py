"""One linker and one KB for all requests, each in a thread of its own.

One thread links: the model uses the whole processor, and spaCy's vocabulary is not made for several
threads. Requests are linked in turns: after a long document, or a few short ones, the thread may turn
to another client. Turns that wait are linked together, as one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from spacy.language import Language
from spacy.tokens import Doc

from ..documents import make_doc
from ..documents.docs import OverlappingMentions
from ..documents.document import Document, Mention
from ..documents.json_documents import document_of
from ..jobs.link_docs import link_documents
from ..kb import Entity, KnowledgeBase
from ..pipeline.pipelines import linker_of
from .fair_thread import FairThread
from .limits import Limits
from .messages import GivenDocument, LinkedDocument
from .refused import Refused
from .waiting_room import WaitingRoom

T = TypeVar("T")

# The most characters of documents that are linked in one turn. A longer document has a turn of its own.
TURN_CHARACTERS = 2000
# The most characters that are linked together. So a client waits for a few turns at most, which take less
# time together.
BATCH_CHARACTERS = 4 * TURN_CHARACTERS


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
        room: The requests under way.
        reading_thread: Where bodies of requests are read.
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
        self.room = WaitingRoom(limits)
        linker = linker_of(nlp, component)
        linker.index  # refuses a KB that does not fit now, not at the first request
        self._spans_key = linker.spans_key
        # A second one, so that look-ups do not wait for the model.
        self._kb = KnowledgeBase.open(linker.kb.path)
        self.entity_count = len(self._kb)
        self._warm_up()
        self._model_thread = FairThread("model", together=BATCH_CHARACTERS)
        self._kb_thread = FairThread("kb")
        self.reading_thread = FairThread("reading")

    @property
    def finds_mentions(self) -> bool:
        """Whether there are components that may find mentions."""
        return any(name != self.component for name in self.nlp.pipe_names)

    async def link(self, client: str, documents: Sequence[GivenDocument]) -> list[LinkedJSON]:
        """Link documents.

        Args:
            client: The name of the client that asks; see ``clients.client_at``.
            documents: Documents, in the form in which ``pel link`` reads JSONL.

        Returns:
            The documents in the form in which ``pel link`` writes JSONL.

        Raises:
            Refused: A document is wrong, the service is busy, or the time is up.
        """
        return await self.room.answer(client, self._all_linked(client, documents))

    async def entity(self, client: str, id: str) -> Entity | None:
        """The entity with this concept id, alternative id or retired id. Raises Refused if busy."""
        return await self._looked_up(client, self._entity, id)

    async def search(self, client: str, text: str, limit: int) -> list[Entity]:
        """The entities whose names hold all words of the text. Raises Refused if busy."""
        return await self._looked_up(client, self._kb.found, text, limit)

    def close(self) -> None:
        """Wait for the work under way, drop the work that waits, and close the KB."""
        for thread in (self.reading_thread, self._model_thread, self._kb_thread):
            thread.close()
        self._kb.close()

    async def _looked_up(self, client: str, function: Callable[..., T], *arguments: Any) -> T:
        work = self._kb_thread.run(client, 0, function, *arguments)
        return await self.room.answer(client, work)

    async def _all_linked(
        self, client: str, documents: Sequence[GivenDocument]
    ) -> list[LinkedJSON]:
        """The documents, linked in turns; all of them are checked before."""
        size = _characters(documents)
        checked = await self.reading_thread.run(client, size, self._checked, documents)
        turns = [
            asyncio.ensure_future(
                self._model_thread.run_together(
                    client, size, 1 + _characters(piece.documents), self._linked_together, piece
                )
            )
            for piece in _pieces(checked)
        ]
        try:
            return [document for linked in await asyncio.gather(*turns) for document in linked]
        finally:
            for turn in turns:  # after an error nobody waits for the others
                turn.cancel()

    def _warm_up(self) -> None:
        """Link a word, so that no client waits for what is loaded at the first use."""
        words = [Document("MS"), Document("MS", mentions=(Mention(0, 2, "MS"),))]
        with self.nlp.memory_zone():
            docs = [make_doc(self.nlp, word, self._spans_key) for word in words]
            list(link_documents(self.nlp, docs, component=self.component))

    def _checked(self, documents: Sequence[GivenDocument]) -> list[Document]:
        checked = []
        for number, document in enumerate(documents):
            try:
                checked.append(document_of(document.model_dump(exclude_none=True)))
            except ValueError as error:
                raise _wrong(number, error) from None
        return checked

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
            raise Refused(
                422,
                f"document {number}: {error.problem}, which this server does not take; send each of "
                "two mentions that overlap in a document of its own",
            ) from None
        except ValueError as error:
            raise _wrong(number, error) from None

    def _entity(self, id: str) -> Entity | None:
        number = self._kb.number(id)
        return None if number is None else self._kb.entities([number])[0]


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


def _characters(documents: Sequence[Document] | Sequence[GivenDocument]) -> int:
    return sum(len(document.text) for document in documents)


def _as_json(record: dict[str, Any]) -> LinkedJSON:
    linked = LinkedDocument.model_validate(record)
    return LinkedJSON(linked.model_dump_json(exclude_unset=True).encode(), len(linked.mentions))


def _wrong(number: int, error: ValueError) -> Refused:
    return Refused(422, f"document {number}: {str(error).splitlines()[0]}")
