"""One linker and one KB for all requests, each in a thread of its own.

One thread links: the model uses the whole processor, and spaCy's vocabulary is not made for several
threads. Clients take turns at it. Turns that wait are linked together, as one batch.
"""

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import accumulate, count, groupby
from typing import Any

from spacy.tokens import Doc
from starlette.exceptions import HTTPException

from ..batch.link import DOCUMENTS_PER_BLOCK
from ..batch.link_docs import Linking, give_back_memory
from ..corpora import make_doc
from ..corpora.doc_conversion import linked_document
from ..corpora.document import Document, Mention
from ..kb import Entity, KnowledgeBase
from .served import Limits

TURN_CHARACTERS = 4000  # of the documents of a request that wait at a time, roughly
TOGETHER = 8000  # the most characters of a batch that is linked, unless one document has more

Linked = tuple[bytes, int]  # a ``LinkedDocument`` as JSON, and the number of its mentions


class Turns:
    """One thread, for an event loop, that clients share fairly: the one who had least is next.

    It is fair queueing. The items of a client stand in line at the sum of the sizes of those before
    them, and its first where the line has come to. So a client with much to do waits for itself.
    """

    def __init__(self, function: Callable[[list[Any]], Sequence[Any]], together: int) -> None:
        self._thread = ThreadPoolExecutor(1, "model")
        self._function = function  # gives a result for each item of a list, or its error
        self._together = together  # the most of the sizes of the items of such a list
        # A heap: the place in line of an item, its number and size, the item, and its answer.
        self._waiting: list[tuple[int, int, int, Any, asyncio.Future]] = []
        self._numbers = count()
        self._place = 0  # to which the line has come
        self._ends: dict[str, int] = {}  # where the next item of each client stands
        self._is_busy = False

    def add(self, client: str, size: int, item: Any) -> asyncio.Future:
        """Give the function's result for an item. If it is cancelled in time, the item is left out."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        place = max(self._place, self._ends.get(client, 0))
        self._ends[client] = place + max(1, size)
        heappush(self._waiting, (place, next(self._numbers), size, item, answer))
        if not self._is_busy:
            self._is_busy = True
            loop.create_task(self._work())
        return answer

    def close(self) -> None:
        """Wait for the work under way."""
        self._thread.shutdown(cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what is asked for now may join
        while taken := self._taken():
            items = [item for item, _ in taken]
            results = await loop.run_in_executor(self._thread, self._function, items)
            for (_, answer), result in zip(taken, results):
                if answer.cancelled():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
            await asyncio.sleep(0)  # whoever has an answer may ask for more
            self._ends = {name: end for name, end in self._ends.items() if end > self._place}
        self._is_busy = False

    def _taken(self) -> list[tuple[Any, asyncio.Future]]:
        """Take the items that are done next."""
        taken: list[tuple[Any, asyncio.Future]] = []
        room = self._together
        while self._waiting and not (taken and self._waiting[0][2] > room):
            self._place, _, size, item, answer = heappop(self._waiting)
            if not answer.cancelled():
                taken.append((item, answer))
                room -= size
        return taken


class LinkingService:
    """Links documents and looks up entities within limits, for an event loop."""

    def __init__(self, linking: Linking, limits: Limits) -> None:
        self.linking = linking
        self.limits = limits
        self.under_way: Counter[str] = Counter()  # requests of each client
        # A second one, so that look-ups do not wait for the model.
        self.kb = KnowledgeBase.open(linking.linker.kb.path)
        self._look_ups = ThreadPoolExecutor(1, "kb")
        self._since_given_back = 0  # documents
        # So that no client waits for what is loaded at the first use.
        self._linked([(0, Document("MS")), (1, Document("MS", None, (Mention(0, 2, "MS"),)))])
        self._turns = Turns(self._linked_or_refused, TOGETHER)

    @contextmanager
    def admitted(self, client: str) -> Iterator[None]:
        """Count a request as under way; HTTPException if the client (429) or all (503) have too many."""
        retry = "try again in a few seconds", {"retry-after": "2"}
        if self.under_way[client] >= max(1, self.limits.waiting // 2):
            raise HTTPException(429, f"you have too many requests under way; {retry[0]}", retry[1])
        if self.under_way.total() >= self.limits.waiting:
            raise HTTPException(503, f"the server is busy; {retry[0]}", retry[1])
        self.under_way[client] += 1
        try:
            yield
        finally:
            self.under_way[client] -= 1
            self.under_way += Counter()  # forgets who has none

    async def link(self, client: str, documents: Sequence[Document]) -> list[Linked]:
        """Link documents, some at a time; HTTPException (422) if mentions overlap.

        In between other requests have their turn, also those of the client, which may be a proxy.
        """
        linked: list[Linked] = []
        ends = accumulate(len(document.text) for document in documents)
        numbered = zip(ends, enumerate(documents))
        for _, turn in groupby(numbered, key=lambda pair: pair[0] // TURN_CHARACTERS):
            answers = [self._turns.add(client, len(one[1].text), one) for _, one in turn]
            try:
                linked += await asyncio.gather(*answers)
            finally:
                for answer in answers:
                    answer.cancel()
        return linked

    async def look_up(self, find: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that reads the KB."""
        return await asyncio.get_running_loop().run_in_executor(self._look_ups, find, *arguments)

    def entity(self, id: str) -> Entity | None:
        """The entity with this concept id, alternative id or retired id; see ``look_up``."""
        number = self.kb.number(id)
        return None if number is None else self.kb.entities([number])[0]

    def close(self) -> None:
        """Wait for the work under way, and close the KB."""
        self._turns.close()
        self._look_ups.shutdown(cancel_futures=True)
        self.kb.close()

    def _linked_or_refused(self, numbered: Sequence[tuple[int, Document]]) -> list:
        """The linked documents, and for those that cannot be linked the reason."""
        try:
            return self._linked(numbered)
        except Exception as error:
            if len(numbered) == 1:
                return [error]
            return [result for one in numbered for result in self._linked_or_refused([one])]

    def _linked(self, numbered: Sequence[tuple[int, Document]]) -> list[Linked]:
        """Documents with their numbers in their requests, linked as one batch."""
        linked = []
        with self.linking.nlp.memory_zone():  # else spaCy's memory of words seen would grow
            docs = [self._doc(number, document) for number, document in numbered]
            for doc in self.linking.docs(docs):
                record = linked_document(doc, self.linking.linker.spans_key)
                text = json.dumps(record, ensure_ascii=False).encode()
                linked.append((text, len(record["mentions"])))
        self._since_given_back += len(linked)
        if self._since_given_back >= DOCUMENTS_PER_BLOCK:
            self._since_given_back = 0
            give_back_memory()
        return linked

    def _doc(self, number: int, document: Document) -> Doc:
        try:
            return make_doc(self.linking.nlp, document, self.linking.linker.spans_key)
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise HTTPException(422, f"document {number}: {reason}") from None


def client_at(peer: tuple[str, int | None] | None) -> str:
    """Name the client at an address (host, port): the host, or the /64 network of an IPv6 one."""
    host = peer[0] if peer else ""
    return str(ipaddress.ip_network(f"{host}/64", strict=False)) if ":" in host else host
