"""One linker and one KB for all requests, each in a thread of its own.

One thread links: the model uses the whole processor, and spaCy's vocabulary is not made for several
threads. Clients take turns at it. Turns that wait are linked together, as one batch.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from .messages import LinkRequest
from .served import Limits

# The most characters of documents that are linked in one turn. A longer document has a turn of its own.
TURN_CHARACTERS = 4000
# The most characters that are linked together.
BATCH_CHARACTERS = 2 * TURN_CHARACTERS

Piece = list[tuple[int, Document]]  # documents of a request with their numbers: what a turn links


class FairThread:
    """One thread, for the coroutines of an event loop, at which clients that wait take turns.

    A client with many turns waits for itself: between two of them the others have one each, also those
    that come meanwhile.

    Args:
        name: The name of the thread.
        function: What is called with a list of items. It gives a result for each, or its error.
        together: The largest sum of the sizes of turns that are done together, as one list.
    """

    def __init__(
        self, name: str, function: Callable[[list[Any]], Sequence[Any]], together: int = 0
    ) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._function = function
        self._together = together
        # The turns of each client that waits: size, item and answer. The first client is the next.
        self._waiting: dict[str, deque[tuple[int, Any, asyncio.Future]]] = {}
        self._is_busy = False

    async def run(self, client: str, size: int, item: Any) -> Any:
        """Give the function's result for an item, when it is the client's turn.

        If the caller is cancelled before its turn, the item is left out.
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.setdefault(client, deque()).append((size, item, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.create_task(self._take_turns())
        return await answer

    def close(self) -> None:
        """Wait for the work under way."""
        self._thread.shutdown(cancel_futures=True)

    async def _take_turns(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what is asked for now may join
        while turns := self._next_turns():
            items = [item for _, item, _ in turns]
            try:
                results = await loop.run_in_executor(self._thread, self._function, items)
            except Exception as error:
                results = [error] * len(turns)
            for (client, _, answer), result in zip(turns, results):
                if client in self._waiting:  # behind those that came meanwhile
                    self._waiting[client] = self._waiting.pop(client)
                if answer.cancelled():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
            await asyncio.sleep(0)  # whoever has an answer may ask for a next turn
        self._is_busy = False

    def _next_turns(self) -> list[tuple[str, Any, asyncio.Future]]:
        """Take the turns that are done next, with their clients and answers."""
        turns: list[tuple[str, Any, asyncio.Future]] = []
        room = self._together
        while self._waiting:
            client, waiting = next(iter(self._waiting.items()))
            size, item, answer = waiting[0]
            if turns and size > room:
                break
            waiting.popleft()
            del self._waiting[client]
            if waiting:
                self._waiting[client] = waiting  # behind the others
            if not answer.cancelled():
                turns.append((client, item, answer))
                room -= size
        return turns


class LinkedJSON(NamedTuple):
    """A linked document as the JSON of a ``LinkedDocument``, and the number of its mentions."""

    text: bytes
    mentions: int


class LinkingService:
    """Links documents and looks up entities within limits, for an event loop.

    Raises:
        PelError: There is no linker of this name, or its KB has no vectors of its encoder.
    """

    def __init__(self, nlp: Language, component: str = "proxy_linker", *, limits: Limits) -> None:
        self.nlp = nlp
        self.component = component
        self.limits = limits
        self.under_way: Counter[str] = Counter()  # requests of each client
        linker = linker_of(nlp, component)
        linker.index  # refuses a KB that does not fit now, not at the first request
        self._spans_key = linker.spans_key
        # A second one, so that look-ups do not wait for the model.
        self.kb = KnowledgeBase.open(linker.kb.path)
        # So that no client waits for what is loaded at the first use.
        self._linked([[(0, Document("MS")), (1, Document("MS", None, (Mention(0, 2, "MS"),)))]])
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
        call = partial(LinkRequest.read, body, self.limits)
        return await self._reading.run(client, len(body), call)

    async def link(self, client: str, documents: Sequence[Document]) -> list[LinkedJSON]:
        """Link documents, in one turn after another; HTTPException (422) if mentions overlap."""
        linked: list[LinkedJSON] = []
        for piece in _pieces(documents):
            linked += await self._model.run(client, _characters(piece), piece)
        return linked

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
            return [list(islice(linked, len(piece))) for piece in pieces]
        except Exception as error:
            if len(pieces) == 1:
                return [error]
            return [result for piece in pieces for result in self._linked_together([piece])]

    def _linked(self, pieces: Sequence[Piece]) -> list[LinkedJSON]:
        """The documents of all pieces, linked as one batch."""
        with self.nlp.memory_zone():  # else spaCy's memory of words seen would grow
            docs = [self._doc(*numbered) for piece in pieces for numbered in piece]
            records = link_documents(self.nlp, docs, component=self.component, batch_size=len(docs))
            return [
                LinkedJSON(json.dumps(record, ensure_ascii=False).encode(), len(record["mentions"]))
                for record in records
            ]

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
    piece: Piece = []
    for numbered in enumerate(documents):
        if piece and _characters([*piece, numbered]) > TURN_CHARACTERS:
            yield piece
            piece = []
        piece.append(numbered)
    if piece:
        yield piece


def _characters(piece: Piece) -> int:
    return sum(len(document.text) for _, document in piece)


def _called(calls: list[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]
