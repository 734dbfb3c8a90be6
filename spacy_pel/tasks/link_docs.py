"""Docs through a pipeline, as ``pel link`` and ``pel serve`` run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.tokens import Doc

from ..documents.document import gives_mentions
from ..documents.linked import linked_document
from ..pipeline.pipelines import linker_of, other_linkers, upstream_of
from .pipe import pipe

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


class OnError(str, Enum):
    """What a bad document does: it ends the run, or is reported and left out."""

    stop = "stop"
    skip = "skip"


@dataclass(frozen=True)
class Linking:
    """How docs are linked. Raises PelError if there is no linker, or its KB does not fit it."""

    nlp: Language
    component: str = "proxy_linker"
    batch_size: int = 128
    n_process: int = 1
    on_error: OnError = OnError.stop

    def __post_init__(self) -> None:
        self.linker.index  # refuses a KB here and now, not in a worker

    @property
    def linker(self) -> ProxyLinker:
        return linker_of(self.nlp, self.component)

    def docs(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """The docs, linked, in order. Where mentions are given, the linker alone runs, and what
        it needs; else all but other linkers."""
        needed = {self.component, *upstream_of(self.nlp, self.component)}
        others = [name for name in self.nlp.pipe_names if name not in needed]
        linkers = list(other_linkers(self.nlp, self.component))
        key = self.linker.spans_key
        # Of a stream that mixes both kinds, consecutive docs of a kind are linked together.
        for given, group in groupby(docs, key=lambda doc: gives_mentions(doc, key)):
            yield from pipe(
                self.nlp,
                group,
                n_process=self.n_process,
                disable=others if given else linkers,
                batch_size=self.batch_size,
            )


def link_documents(
    nlp: Language,
    docs: Iterable[Doc],
    *,
    component: str = "proxy_linker",
    batch_size: int = 128,
    n_process: int = 1,
) -> Iterator[dict[str, Any]]:
    """Run the pipeline over a stream of docs; yields each as ``linked_document`` has it, in order.

    Where mentions are given, the linker alone runs.
    Raises PelError if there is no linker, its KB has no vectors of its encoder, or a worker fails.
    """
    linking = Linking(nlp, component, batch_size, n_process)
    for doc in linking.docs(docs):
        yield linked_document(doc, linking.linker.spans_key)
