"""One linker and one KB for all requests, each in a thread of its own.

Requests are linked one after another: the model uses the whole processor, and spaCy's vocabulary is
not made for several threads. The documents of a request are linked one after another as well, and
the time is checked between them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from spacy.language import Language

from ..documents import make_doc
from ..documents.docs import OverlappingMentions
from ..documents.json_documents import document_of
from ..kb import Entity, KnowledgeBase
from ..pipeline.pipelines import linker_of
from ..tasks.link_docs import link_documents
from .limits import Limits

T = TypeVar("T")


class Refused(Exception):
    """A request that gets no answer.

    Args:
        status: The HTTP status to send.
        reason: The reason, as a sentence.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class LinkingService:
    """Links documents and looks up entities within limits, for an event loop."""

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
        self.waiting = 0  # requests under way
        linker = linker_of(nlp, component)
        linker.index  # refuses a KB that does not fit now, not at the first request
        self._spans_key = linker.spans_key
        self._kb = KnowledgeBase.open(
            linker.kb.path
        )  # a second one: look-ups do not wait for the model
        self.entity_count = len(self._kb)
        self._model_thread = ThreadPoolExecutor(1, "model")
        self._kb_thread = ThreadPoolExecutor(1, "kb")

    @property
    def finds_mentions(self) -> bool:
        """Whether there are components that may find mentions."""
        return any(name != self.component for name in self.nlp.pipe_names)

    async def link(self, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Link documents.

        Args:
            documents: Documents in the form in which ``pel link`` reads JSONL.

        Returns:
            The documents in the form in which ``pel link`` writes JSONL.

        Raises:
            Refused: A document is wrong, the service is busy, or the time is up.
        """
        deadline = time.monotonic() + self.limits.seconds
        return await self._in_time(self._model_thread, self._linked, documents, deadline)

    async def entity(self, id: str) -> Entity | None:
        """The entity with this concept id, alternative id or retired id. Raises Refused if busy."""
        return await self._in_time(self._kb_thread, self._entity, id)

    async def search(self, text: str, limit: int) -> list[Entity]:
        """The entities whose names hold all words of the text. Raises Refused if busy."""
        return await self._in_time(self._kb_thread, self._kb.found, text, limit)

    def close(self) -> None:
        """Wait for the work under way, drop the work that waits, and close the KB."""
        for thread in (self._model_thread, self._kb_thread):
            thread.shutdown(cancel_futures=True)
        self._kb.close()

    async def _in_time(
        self, thread: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any
    ) -> T:
        if self.waiting >= self.limits.waiting:
            raise Refused(503, "the server is busy; try again in a few seconds")
        self.waiting += 1
        try:
            work = asyncio.wrap_future(thread.submit(function, *arguments))
            return await asyncio.wait_for(work, self.limits.seconds)
        except asyncio.TimeoutError:  # what has not begun by now never will
            raise Refused(504, f"no answer within {self.limits.seconds:g} seconds") from None
        finally:
            self.waiting -= 1

    def _linked(self, documents: list[dict[str, Any]], deadline: float) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        with self.nlp.memory_zone():  # else spaCy's memory of words seen would grow
            docs = [self._document(number, record) for number, record in enumerate(documents)]
            for record in link_documents(self.nlp, docs, component=self.component, batch_size=1):
                if time.monotonic() > deadline:  # nobody waits for it any longer
                    raise asyncio.TimeoutError
                records.append(record)
        return records

    def _document(self, number: int, record: dict[str, Any]):
        try:
            return make_doc(self.nlp, document_of(record), self._spans_key)
        except OverlappingMentions as error:
            raise Refused(
                422,
                f"document {number}: {error.problem}, which this server does not take; send each of "
                "two mentions that overlap in a document of its own",
            ) from None
        except ValueError as error:
            raise Refused(422, f"document {number}: {str(error).splitlines()[0]}") from None

    def _entity(self, id: str) -> Entity | None:
        number = self._kb.number(id)
        return None if number is None else self._kb.entities([number])[0]
