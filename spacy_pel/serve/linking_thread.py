"""Link the documents of requests in one thread.

One thread suffices, because a model uses all cores. spaCy's vocabulary is not thread-safe.
"""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from spacy.tokens import Doc
from starlette.exceptions import HTTPException

from ..batch.link_docs import Linking
from ..batch.link_files import DOCUMENTS_PER_BLOCK
from ..corpora.doc_conversion import linked_document, make_doc
from ..corpora.document import Document, Mention
from ..io.memory import release_memory

# A ``LinkedDocument`` as JSON, and the number of its mentions.
Linked: TypeAlias = tuple[bytes, int]


class LinkingThread:
    """Link documents for an event loop, one request after the other."""

    def __init__(self, linking: Linking) -> None:
        self.linking = linking
        self._thread = ThreadPoolExecutor(1, "model")
        self._documents_in_memory = 0  # linked since memory was last given back
        # Load what the pipeline loads at its first use, so that no client waits for it.
        self._link([Document("MS"), Document("MS", None, (Mention(0, 2, "MS"),))])

    async def link(self, documents: Sequence[Document]) -> list[Linked]:
        """Link documents.

        Raises:
            HTTPException: The mentions of a document overlap (422).
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._link, documents)

    def close(self) -> None:
        """Wait for the current request, and cancel the rest."""
        self._thread.shutdown(cancel_futures=True)

    def _link(self, documents: Sequence[Document]) -> list[Linked]:
        linked = []
        # The zone frees the words that spaCy has added to its vocabulary.
        with self.linking.nlp.memory_zone():
            docs = [self._doc(number, document) for number, document in enumerate(documents)]
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
