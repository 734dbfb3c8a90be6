"""``pel link``: documents in, mentions with their entities out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..training.corpus import gold_mentions
from .apps import Component, OtherKB, Pipeline, SpansKey, command, msg, pel
from .documents import gives_mentions, read_documents
from .files import whole_file
from .pipelines import linker_of, load_pipeline
from .pipe import pipe

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

# Documents after which spaCy's memory of words seen is emptied: it would grow with the input.
ZONE = 10_000


@command(pel, "link")
def link_cli(
    pipeline: Pipeline,
    input: Annotated[
        str, typer.Argument(help="A file .txt, .jsonl or .spacy, or - for text on stdin")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSONL file to write")],
    kb: OtherKB = None,
    spans_key: SpansKey = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Documents linked at a time")] = 128,
    n_process: Annotated[int, typer.Option(min=1, help="Processes to use")] = 1,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates written a mention")] = 5,
    component: Component = "proxy_linker",
) -> None:
    """Link the mentions of documents.

    Writes a JSON object a document: its mentions, each with its entity and candidates.

    Text holds a document a line. JSONL holds objects with "text" and, if wanted, "id" and
    "mentions": [{"start", "end", "label"}] (characters); where mentions are given, no others are
    looked for. Both may be gzipped, and are read as a stream; a .spacy file (DocBin) is loaded
    whole.

    \b
    Examples:
      python -m spacy pel link training/model-best notes.txt --output linked.jsonl
      zcat notes.gz | python -m spacy pel link training/model-best - --output linked.jsonl
    """
    from tqdm import tqdm

    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
    linker.candidates = candidates
    docs = read_documents(nlp, input, linker.spans_key)
    with tqdm(desc="Linking", unit=" documents") as bar:
        n_docs, n_mentions = link_to_file(
            nlp,
            docs,
            output,
            component=component,
            batch_size=batch_size,
            n_process=n_process,
            progress=bar.update,
        )
    if n_docs and not n_mentions:
        msg.warn(
            f"No mention found by the pipeline ({', '.join(nlp.pipe_names)}); add a component that "
            'finds some before the linker, such as a trained "ner", or give JSONL with "mentions"'
        )
    msg.good(f"Linked {n_mentions:,} mentions of {n_docs:,} documents: {output}")


def link_to_file(
    nlp: Language,
    docs: Iterable[Doc],
    output: Path,
    *,
    component: str = "proxy_linker",
    batch_size: int = 128,
    n_process: int = 1,
    progress: Optional[Callable[[], object]] = None,
) -> tuple[int, int]:
    """Write what ``link_documents`` gives to a JSONL file; returns counts of docs and mentions.

    The file is whole or, after an error or an interruption, as it was. Memory does not grow with
    the number of docs, if they are a stream. progress: called after each doc.
    Raises what ``link_documents`` does, and OSError if the file cannot be written.
    """
    docs = iter(docs)
    n_docs = n_mentions = 0
    with whole_file(output) as file:
        for first in docs:
            with nlp.memory_zone():
                part = chain([first], islice(docs, ZONE - 1))
                for record in link_documents(
                    nlp, part, component=component, batch_size=batch_size, n_process=n_process
                ):
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                    n_docs, n_mentions = n_docs + 1, n_mentions + len(record["mentions"])
                    if progress:
                        progress()
    return n_docs, n_mentions


def link_documents(
    nlp: Language,
    docs: Iterable[Doc],
    *,
    component: str = "proxy_linker",
    batch_size: int = 128,
    n_process: int = 1,
) -> Iterator[dict[str, Any]]:
    """Run the pipeline over a stream of docs; yields each as plain data, in order.

    Where a doc has mentions, the linker alone runs. A result is {"id", "text", "mentions":
    [{"start", "end", "text", "label", "id", "name", "score", "probability", "candidates": [{"id",
    "name", "score"}]}]}, offsets in characters, candidates best first, as many as the linker is
    set to; a doc's "id" is ``doc.user_data["id"]``, and absent where that is.
    Raises PelError if there is no linker, its KB has no vectors of its encoder, or a worker fails.
    """
    linker = linker_of(nlp, component)
    linker.index  # refuses a KB that does not fit here and now, not in a worker
    others = [name for name in nlp.pipe_names if name != component]
    # Of a stream that mixes both kinds, consecutive docs of a kind are linked together.
    for given, group in groupby(docs, key=lambda doc: gives_mentions(doc, linker.spans_key)):
        disabled = others if given else []
        for doc in pipe(
            nlp, group, n_process=n_process, disable=disabled, batch_size=batch_size
        ):
            yield _as_record(doc, linker)


def _as_record(doc: Doc, linker: ProxyLinker) -> dict[str, Any]:
    id = {"id": doc.user_data["id"]} if "id" in doc.user_data else {}
    mentions = [_as_mention(span) for span in gold_mentions(doc, linker.spans_key)]
    return {**id, "text": doc.text, "mentions": mentions}


def _as_mention(span: Span) -> dict[str, Any]:
    candidates = span._.kb_candidates
    return {
        "start": span.start_char,
        "end": span.end_char,
        "text": span.text,
        "label": span.label_,
        "id": span.kb_id_,
        "name": next((c["name"] for c in candidates if c["id"] == span.kb_id_), None),
        "score": span._.kb_score,
        "probability": span._.kb_probability,
        "candidates": candidates,
    }
