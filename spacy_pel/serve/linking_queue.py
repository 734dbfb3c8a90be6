"""The queue of requests that wait for the pipeline, and the thread that links them.

Linking runs in one thread: a model uses all cores, and spaCy's vocabulary is not thread-safe. A request
queues one part of its documents at a time, so that a large request does not block the others. Parts that
wait at the same time are linked as one batch.
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
from ..batch.link_docs import Linking
from ..corpora.doc_conversion import linked_document, make_doc
from ..corpora.document import Document, Mention
from ..io.memory import release_memory

PART_CHARACTERS = 4000  # approximate
MAX_BATCH_CHARACTERS = 8000  # a larger part is a batch of its own

# Documents with their numbers in the request.
Part: TypeAlias = Sequence[tuple[int, Document]]
# A ``LinkedDocument`` as JSON, and the number of its mentions.
Linked: TypeAlias = tuple[bytes, int]
Waiting: TypeAlias = tuple[Part, asyncio.Future[list[Linked]]]


class LinkingQueue:
    """Links documents for an event loop."""

    def __init__(self, linking: Linking) -> None:
        self.linking = linking
        self._model = ThreadPoolExecutor(1, "model")
        self._waiting: deque[Waiting] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._documents_in_memory = 0  # linked since memory was last given back
        # Load what the pipeline loads at its first use, so that no client waits for it.
        self._link([(0, Document("MS")), (1, Document("MS", None, (Mention(0, 2, "MS"),)))])

    async def link(self, documents: Sequence[Document]) -> list[Linked]:
        """Link documents; HTTPException (422) if the mentions of one overlap."""
        linked: list[Linked] = []
        for part in _parts(documents):
            result: asyncio.Future[list[Linked]] = asyncio.get_running_loop().create_future()
            self._waiting.append((part, result))
            if self._worker is None:
                self._worker = asyncio.create_task(self._work())
            linked += await result
        return linked

    def close(self) -> None:
        """Wait for the current batch, and cancel the rest."""
        self._model.shutdown(cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # requests that arrive now can join the batch
        while batch := self._next_batch():
            parts = [part for part, _ in batch]
            results = await loop.run_in_executor(self._model, self._link_parts, parts)
            for (_, future), result in zip(batch, results):
                if future.cancelled():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
            await asyncio.sleep(0)  # requests with a result can queue their next part
        self._worker = None

    def _next_batch(self) -> list[Waiting]:
        """Take the parts of the next batch from the queue, first in, first out."""
        batch: list[Waiting] = []
        characters = 0
        while self._waiting:
            part, future = self._waiting[0]
            characters += sum(len(document.text) for _, document in part)
            if batch and characters > MAX_BATCH_CHARACTERS:
                break
            self._waiting.popleft()
            if not future.cancelled():  # cancelled: the request exceeded its time limit
                batch.append((part, future))
        return batch

    def _link_parts(self, parts: Sequence[Part]) -> list[list[Linked] | Exception]:
        """Link parts as one batch. A part that fails yields its error instead."""
        try:
            linked = iter(self._link([document for part in parts for document in part]))
            return [[next(linked) for _ in part] for part in parts]
        except Exception as error:
            if len(parts) == 1:
                return [error]
            return [result for part in parts for result in self._link_parts([part])]

    def _link(self, part: Part) -> list[Linked]:
        linked = []
        with (
            self.linking.nlp.memory_zone()
        ):  # frees the words that spaCy has added to its vocabulary
            docs = [self._doc(number, document) for number, document in part]
            for doc in self.linking.docs(docs):
                record = linked_document(doc, self.linking.linker.spans_key)
                text = json.dumps(record, ensure_ascii=False).encode()
                linked.append((text, len(record["mentions"])))
        self._documents_in_memory += len(linked)
        if self._documents_in_memory >= DOCUMENTS_PER_BLOCK:
            self._documents_in_memory = 0
            release_memory()
        return linked

    def _doc(self, number: int, document: Document) -> Doc:
        try:
            return make_doc(self.linking.nlp, document, self.linking.linker.spans_key)
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise HTTPException(422, f"document {number}: {reason}") from None


def _parts(documents: Sequence[Document]) -> Iterator[Part]:
    """Split the documents of a request into parts of about PART_CHARACTERS characters."""
    ends = accumulate(len(document.text) for document in documents)
    numbered = zip(ends, enumerate(documents))
    for _, part in groupby(numbered, key=lambda pair: pair[0] // PART_CHARACTERS):
        yield [document for _, document in part]
