"""scispaCy's linker behind the server of ``pel serve``, for ``serve_peer.py``, which runs it.

python serve_scispacy.py PIPELINE KB.jsonl INDEX PORT

What differs from ``pel serve`` is the pipeline alone: limits, turns and batches are the same.
"""

import json
import signal
import sys
from collections.abc import Sequence

from raw_text_scispacy import ScispacyLinker, best_of

from spacy_pel.serve.app import create_app
from spacy_pel.serve.fair_thread import FairThread
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.listener import listen
from spacy_pel.serve.server import run_server
from spacy_pel.serve.service import BATCH_CHARACTERS, LinkedJSON, LinkingService, Piece
from spacy_pel.serve.waiting_room import WaitingRoom


class ScispacyService(LinkingService):
    """The service of ``pel serve``, with another linker in the place of ``proxy_linker``."""

    finds_mentions = True
    entity_count = 0

    def __init__(self, linker: ScispacyLinker, limits: Limits):
        self.linker, self.nlp, self.limits = linker, linker.nlp, limits
        self.room = WaitingRoom(limits)
        self._model_thread = FairThread("model", together=BATCH_CHARACTERS)
        self.reading_thread = FairThread("reading")

    def close(self) -> None:
        for thread in (self.reading_thread, self._model_thread):
            thread.close()

    def _linked(self, pieces: Sequence[Piece]) -> list[LinkedJSON]:
        texts = [document.text for piece in pieces for document in piece.documents]
        linked = []
        for doc in self.linker.pipe(texts):
            found = [(e.start_char, e.end_char, e.text, *best_of(e)) for e in doc.ents]
            mentions = [dict(zip(("start", "end", "text", "id", "score"), m)) for m in found]
            text = json.dumps({"text": doc.text, "mentions": mentions}, ensure_ascii=False)
            linked.append(LinkedJSON(text.encode(), len(mentions)))
        return linked


def main(pipeline: str, kb: str, index: str, port: str) -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # uvicorn ends in an orderly way before
    limits = Limits()
    with listen("127.0.0.1", int(port)) as listener:
        service = ScispacyService(ScispacyLinker(pipeline, kb, index), limits)
        run_server(create_app(service, local=True), listener, limits)


if __name__ == "__main__":
    main(*sys.argv[1:])
