"""Entities found in raw text, with and without scispaCy's linker: a table for each corpus, and what it costs.

    python benchmarks/raw_text.py PIPELINE CORPUS... [--ids KB] [--runtime RUNTIME]...
        [--stages] [--scispacy PYTHON --index INDEX --ner FOLDER --train CORPUS]

PIPELINE finds the mentions and links them, once with each RUNTIME. With PYTHON, an environment with
scispaCy and this package (``make test-scispacy``), scispaCy's linker links the mentions of the same
"kb_ner", and those of FOLDER: a pipeline with spaCy's "ner" as scispaCy's en_ner_bc5cdr_md has it, which is
trained on CORPUS first if it is not there. INDEX is scispaCy's index of the same KB
(``benchmarks/speed/run.py`` builds one).

- Strict: a mention is right if its offsets are those of a gold mention, and its id is one of that
  mention's. A gold mention whose ids the KB lacks is NIL, and only NIL is right for it. Found mentions
  that together fill a gold mention of several ids ("breast and ovarian cancer") count as one, which is right
  if all their ids are its.
- Which ids stand for the same entity is said by the alternative ids of KB, such as MeSH with MEDIC: the
  gold ids of NCBI disease are partly OMIM's. Without it, by those of the pipeline's KB.
- Documents: the distinct ids of a document, whatever their mentions. A gold id that the KB lacks is a
  miss.
- Cost: each linker is a process with one thread. In each round each reads the same abstracts; the
  seconds of processor time are medians. Loading is in processor time, too. Memory is what the process holds
  after three sentences. Only "ner" runs of FOLDER, and torch is not imported there.
- With ``--stages``, a table shows the share of each stage of PIPELINE, by processes of their own, since
  clocks between stages cost time.

Mentions whose label the corpus does not annotate are left out: NCBI disease has no chemicals.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import minibatch
from speed.run import write_entities

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document import Document
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.metrics.linking import concept_scores, markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

HERE = Path(__file__).parent
# The label of each kind of mention in NCBI disease.
NCBI = ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
HEADER = ["", "spans F1", "strict P", "strict R", "strict F1", "documents P", "R", "F1"]


class Found(NamedTuple):
    """A mention that a pipeline found; ``id`` is "" for NIL."""

    start: int
    end: int
    label: str
    id: str


class Linker:
    """A process that links texts (``raw_text_worker.py``)."""

    def __init__(self, *command: object) -> None:
        self._process = subprocess.Popen(
            list(map(str, command)),
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.start = self._answer()  # what loading cost

    def _answer(self) -> dict[str, Any]:
        while not (line := self._process.stdout.readline()).startswith("{"):
            if not line:
                raise SystemExit(f"{self._process.args} has ended")
        return json.loads(line)

    def asked(self, texts: list[str]) -> dict[str, Any]:
        """Return the mentions of texts, and the CPU seconds that they took."""
        print(json.dumps(texts), file=self._process.stdin, flush=True)
        return self._answer()


def main(
    pipeline: str,
    corpus: list[Path],
    ids: Annotated[Path | None, typer.Option(help="A KB with alternative ids")] = None,
    runtime: list[str] = ["torch"],
    scispacy: Path | None = None,
    index: Path | None = None,
    ner: Path | None = None,
    train: Annotated[Path | None, typer.Option(help="What the ner is trained on")] = None,
    epochs: int = 12,
    abstracts: Annotated[int, typer.Option(help="Read for the costs, of the first CORPUS")] = 100,
    rounds: int = 5,
    stages: Annotated[bool, typer.Option(help="Show what each stage costs")] = False,
) -> None:
    """Print how well PIPELINE finds and links the mentions of each CORPUS, and what that costs."""
    nlp = load_pipeline(pipeline)
    kb = linker_of(nlp).kb
    entities_of = Entities(kb, KnowledgeBase.open(ids) if ids else kb)
    worker = [HERE / "raw_text_worker.py", nlp.path]
    linkers = {f"{pipeline}, {name}": Linker(sys.executable, *worker, name) for name in runtime}
    with tempfile.TemporaryDirectory() as folder:
        if scispacy and index:
            entities = Path(folder) / "kb.jsonl"
            write_entities(kb, entities)
            linkers["its kb_ner, scispaCy's linker"] = Linker(scispacy, *worker, entities, index)
            if ner:
                if train and not ner.exists():
                    train_ner(ner, train, epochs)
                theirs = Linker(scispacy, worker[0], ner, entities, index)
                linkers["ner, scispaCy's linker"] = theirs
    texts = []
    for path in corpus:
        documents = list(open_corpus(path).documents())
        own = [document.text for document in documents]
        texts += own
        rows = [
            [
                name,
                *_percents(scores(entities_of, documents, _mentions(linker.asked(own)["found"]))),
            ]
            for name, linker in linkers.items()
        ]
        print(f"\n{path}: {len(documents)} documents\n\n{markdown_table(HEADER, rows)}", flush=True)
    print_costs(linkers, texts[:abstracts], rounds)
    if stages:
        timed = {name: Linker(sys.executable, *worker, name, "stages") for name in runtime}
        print_stages(timed, texts[:abstracts], rounds)


def print_stages(linkers: dict[str, Linker], texts: list[str], rounds: int) -> None:
    """Print the milliseconds of processor time per text of each stage, and its share."""
    runs = [
        {name: each.asked(texts)["stages"] for name, each in linkers.items()} for _ in range(rounds)
    ]
    stages = dict.fromkeys(stage for run in runs for own in run.values() for stage in own)
    costs = {
        name: {stage: median(run[name].get(stage, 0.0) for run in runs) for stage in stages}
        for name in linkers
    }
    rows = [
        [
            stage,
            *(
                f"{1000 * own[stage] / len(texts):.2f} ({own[stage] / sum(own.values()):.0%})"
                for own in costs.values()
            ),
        ]
        for stage in stages
    ]
    totals = [f"{1000 * sum(own.values()) / len(texts):.2f}" for own in costs.values()]
    print(f"\nms per text\n\n{markdown_table(['', *linkers], [*rows, ['all', *totals]])}")


def print_costs(linkers: dict[str, Linker], texts: list[str], rounds: int) -> None:
    """Print the costs of each linker, and the last one's over each."""
    seconds = {name: [] for name in linkers}
    for _ in range(rounds):
        for name, linker in linkers.items():
            seconds[name].append(linker.asked(texts)["seconds"])
    costs = [
        (len(texts) / median(seconds[name]), linker.start["load"], linker.start["memory"])
        for name, linker in linkers.items()
    ]
    header = ["", "abstracts/s", "load, s", "memory, MB", "times the last line's", "load", "memory"]
    rows = [
        [name, *(f"{cost:.1f}" for cost in own), *(f"{a / b:.2f}" for a, b in zip(own, costs[-1]))]
        for name, own in zip(linkers, costs)
    ]
    print(f"\n{len(texts)} abstracts, {rounds} rounds\n\n{markdown_table(header, rows)}")


def train_ner(folder: Path, corpus: Path, epochs: int) -> None:
    """Train spaCy's "ner", with its labels in capitals, as scispaCy's are, and save its pipeline."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = list(open_corpus(corpus)(nlp))
    for doc in (example.reference for example in examples):
        doc.ents = [Span(doc, e.start, e.end, label=_label(e.label_).upper()) for e in doc.ents]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(epochs):
        random.shuffle(examples)
        for batch in minibatch(examples, 8):
            fresh = [Example(nlp.make_doc(e.text), e.reference) for e in batch]
            nlp.update(fresh, drop=0.2, sgd=optimizer)
    nlp.to_disk(folder)


def _mentions(found: list[list[list]]) -> list[list[Found]]:
    return [[Found(*mention) for mention in own] for own in found]


class Entities:
    """What ids stand for: the numbers of entities in ``ids``, a KB that knows their alternative ids."""

    def __init__(self, kb: KnowledgeBase, ids: KnowledgeBase) -> None:
        self.kb, self.ids = kb, ids
        self.linked = {self.of(entity.concept_id) for entity in kb}  # what the pipeline can say

    def of(self, id: str) -> int | str:
        """Return the entity of an id, or the id itself if neither KB has it."""
        if (number := self.ids.number(id)) is None and (own := self.kb.number(id)) is not None:
            [(id, _)] = self.kb.labels([own])  # it was renamed
            number = self.ids.number(id)
        return id if number is None else number


def scores(
    entities: Entities, documents: Iterable[Document], found: Iterable[list[Found]]
) -> list[float]:
    """Return the metrics of a line, from 0 to 1."""
    n_gold = n_found = spans_right = right = 0
    of_documents = []
    for document, mentions in zip(documents, found, strict=True):
        gold = {
            (m.start, m.end): (_label(m.label), {entities.of(id) for id in m.ids})
            for m in document.mentions or ()
        }
        labels = {"Disease"} if _is_ncbi(document) else {"Disease", "Chemical"}
        own = {
            (m.start, m.end): (m.label, {entities.of(m.id)} if m.id else set())
            for m in mentions
            if m.label in labels
        }
        of_documents.append(
            [[id for _, ids in side.values() for id in ids] for side in (gold, own)]
        )
        for (start, end), (label, ids) in gold.items():
            parts = [at for at in own if start <= at[0] and at[1] <= end and own[at][0] == label]
            if len(ids) > 1 and len(parts) > 1 and (parts[0][0], parts[-1][1]) == (start, end):
                of_parts = [own.pop(part)[1] or {""} for part in parts]
                own[start, end] = label, set().union(*of_parts)
        n_gold, n_found = n_gold + len(gold), n_found + len(own)
        for at, (label, ids) in own.items():
            of_gold, wanted = gold.get(at, ("", set()))
            spans_right += of_gold == label
            right += of_gold == label and (ids <= wanted if ids else not wanted & entities.linked)
    strict = right / max(1, n_found), right / n_gold, 2 * right / (n_gold + n_found)
    return [2 * spans_right / (n_gold + n_found), *strict, *concept_scores(of_documents).values()]


def _label(label: str) -> str:
    return "Disease" if label in NCBI else label


def _is_ncbi(document: Document) -> bool:
    return any(mention.label in NCBI for mention in document.mentions or ())


def _percents(figures: Iterable[float]) -> list[str]:
    return [f"{100 * figure:.1f}" for figure in figures]


if __name__ == "__main__":
    typer.run(main)
