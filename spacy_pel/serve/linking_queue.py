"""The requests that wait for the pipeline, and the thread that links them.

One thread links: a model uses the whole processor, and spaCy's vocabulary is not made for several
threads. Each request waits with a part of its documents at a time, so that a large one does not hold
up the others. Parts that wait at the same time are linked as one batch.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, groupby
from typing import TypeAlias

from spacy.tokens import Doc
from starlette.exceptions import HTTPException

from ..batch.link import DOCUMENTS_PER_BLOCK
from ..batch.link_docs import Linking, release_memory
from ..corpora import make_doc
from ..corpora.doc_conversion import linked_document
from ..corpora.document import Document, Mention

PART_CHARACTERS = 4000  # roughly
BATCH_CHARACTERS = 8000  # the most, unless one part has more

Part: TypeAlias = Sequence[tuple[int, Document]]  # documents with their numbers in their request
Linked: TypeAlias = tuple[
    bytes, int
]  # a ``LinkedDocument`` as JSON, and the number of its mentions


class LinkingQueue:
    """Links documents for an event loop."""

    def __init__(self, linking: Linking) -> None:
        self.linking = linking
        self._model = ThreadPoolExecutor(1, "model")
        self._waiting: deque[tuple[Part, asyncio.Future[list[Linked]]]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._since_given_back = 0  # documents
        # So that no client waits for what is loaded at the first use.
        self._link([(0, Document("MS")), (1, Document("MS", None, (Mention(0, 2, "MS"),)))])

    async def link(self, documents: Sequence[Document]) -> list[Linked]:
        """Link documents; HTTPException (422) if the mentions of one overlap."""
        linked: list[Linked] = []
        for part in _parts(documents):
            answer: asyncio.Future[list[Linked]] = asyncio.get_running_loop().create_future()
            self._waiting.append((part, answer))
            if self._working is None:
                self._working = asyncio.create_task(self._work())
            linked += await answer
        return linked

    def close(self) -> None:
        """Wait for the batch under way."""
        self._model.shutdown(cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # what is asked for now may join
        while batch := self._next_batch():
            parts = [part for part, _ in batch]
            results = await loop.run_in_executor(self._model, self._link_parts, parts)
            for (_, answer), result in zip(batch, results):
                if answer.cancelled():
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
            await asyncio.sleep(0)  # whoever has an answer may wait with the next part
        self._working = None

    def _next_batch(self) -> list[tuple[Part, asyncio.Future[list[Linked]]]]:
        """Take the parts that are linked next, in the order in which they came."""
        batch, room = [], BATCH_CHARACTERS
        while self._waiting:
            part, answer = self._waiting[0]
            room -= sum(len(document.text) for _, document in part)
            if batch and room < 0:
                break
            self._waiting.popleft()
            if not answer.cancelled():  # else the request ran out of time
                batch.append((part, answer))
        return batch

    def _link_parts(self, parts: Sequence[Part]) -> list[list[Linked] | Exception]:
        """Link parts as one batch; if one cannot be linked, give its error in its place."""
        try:
            linked = iter(self._link([one for part in parts for one in part]))
            return [[next(linked) for _ in part] for part in parts]
        except Exception as error:
            if len(parts) == 1:
                return [error]
            return [result for part in parts for result in self._link_parts([part])]

    def _link(self, part: Part) -> list[Linked]:
        linked = []
        with self.linking.nlp.memory_zone():  # else spaCy's memory of words seen would grow
            docs = [self._doc(number, document) for number, document in part]
            for doc in self.linking.docs(docs):
                record = linked_document(doc, self.linking.linker.spans_key)
                text = json.dumps(record, ensure_ascii=False).encode()
                linked.append((text, len(record["mentions"])))
        self._since_given_back += len(linked)
        if self._since_given_back >= DOCUMENTS_PER_BLOCK:
            self._since_given_back = 0
            release_memory()
        return linked

    def _doc(self, number: int, document: Document) -> Doc:
        try:
            return make_doc(self.linking.nlp, document, self.linking.linker.spans_key)
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise HTTPException(422, f"document {number}: {reason}") from None


def _parts(documents: Sequence[Document]) -> Iterator[Part]:
    """Split the documents of a request into parts of about PART_CHARACTERS."""
    ends = accumulate(len(document.text) for document in documents)
    numbered = zip(ends, enumerate(documents))
    for _, part in groupby(numbered, key=lambda pair: pair[0] // PART_CHARACTERS):
        yield [one for _, one in part]
