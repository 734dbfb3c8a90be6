"""Entities found in raw text, with and without scispaCy's linker: how many are right, and what that costs.

    python benchmarks/raw_text.py PIPELINE CORPUS... [--ids KB] [--runtime RUNTIME]... [--articles CRAFT]
        [--stages] [--scispacy PYTHON --index INDEX --ner FOLDER --train CORPUS]

PIPELINE finds the mentions and links them, once with each RUNTIME. With PYTHON, an environment with
scispaCy and this package (``make test-scispacy``), scispaCy's linker links the mentions of the same
"kb_ner", and those of FOLDER: a pipeline with spaCy's "ner" as scispaCy's en_ner_bc5cdr_md has it, which is
trained on CORPUS first if it is not there. INDEX is scispaCy's index of the same KB
(``benchmarks/speed/run.py`` builds one).

A table shows the costs on the texts of each CORPUS, on the short sentences of all, and on eight articles of
CRAFT. A CORPUS with annotations has a table of scores, too.

- Cost: each linker is a process with one thread, which begins anew for each table. The package remembers
  names, so no linker reads a text twice: each round has other texts, which all linkers read in turn. Figures
  are medians over rounds of processor time; the first round counts. Loading is in processor time, too. Memory
  is what the process holds after three sentences. Only "ner" runs of FOLDER, and torch is not imported there.
- Strict: a mention is right if its offsets are those of a gold mention, and its id is one of that
  mention's. A gold mention whose ids the KB lacks is NIL, and only NIL is right for it. Found mentions
  that together fill a gold mention of several ids ("breast and ovarian cancer") count as one, which is right
  if all their ids are its.
- Which ids stand for the same entity is said by the alternative ids of KB, such as MeSH with MEDIC: the
  gold ids of NCBI disease are partly OMIM's. Without it, by those of the pipeline's KB.
- Documents: the distinct ids of a document, whatever their mentions. A gold id that the KB lacks is a
  miss.
- With ``--stages``, a table shows the share of each stage of PIPELINE on the first CORPUS, by processes of
  their own, since clocks between stages cost time.

Mentions whose label the corpus does not annotate are left out: NCBI disease has no chemicals.
"""

import gzip
import json
import os
import random
import re
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
# The labels of NCBI disease and of BioRED. Mentions with others are left out.
NCBI = ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
LABELS = {
    **dict.fromkeys(("Disease", *NCBI, "DiseaseOrPhenotypicFeature"), "Disease"),
    **dict.fromkeys(("Chemical", "ChemicalEntity"), "Chemical"),
}
SCORES = ["", "spans F1", "strict P", "strict R", "strict F1", "documents P", "R", "F1"]
COSTS = ["", "texts/s", "times the last line's", "load, s", "memory, MB"]
ARTICLES = 8  # read of CRAFT
SHORT = range(6, 15)  # words of a short sentence
SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
EPOCHS = 12  # of the ner


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

    def end(self) -> None:
        """End the process."""
        self._process.communicate()

    def asked(self, texts: list[str]) -> dict[str, Any]:
        """Return the mentions of texts, and the CPU seconds that they took."""
        print(json.dumps(texts), file=self._process.stdin, flush=True)
        return self._answer()


def main(
    pipeline: str,
    corpus: list[Path],
    ids: Annotated[Path | None, typer.Option(help="A KB with alternative ids")] = None,
    runtime: list[str] = ["torch"],
    articles: Annotated[Path | None, typer.Option(help="CRAFT as a table, gzip")] = None,
    scispacy: Path | None = None,
    index: Path | None = None,
    ner: Path | None = None,
    train: Annotated[Path | None, typer.Option(help="What the ner is trained on")] = None,
    rounds: int = 5,
    stages: Annotated[bool, typer.Option(help="Show what each stage costs")] = False,
) -> None:
    """Print how well PIPELINE finds and links the mentions of each CORPUS, and what that costs."""
    nlp = load_pipeline(pipeline)
    kb = linker_of(nlp).kb
    entities_of = Entities(kb, KnowledgeBase.open(ids) if ids else kb)
    worker = [HERE / "raw_text_worker.py", nlp.path]
    commands = {f"{pipeline}, {name}": [sys.executable, *worker, name] for name in runtime}
    texts = {str(path): list(open_corpus(path).documents()) for path in corpus}
    corpora = [document.text for own in texts.values() for document in own]
    texts["short sentences"] = [
        Document(sentence)
        for text in corpora
        for sentence in SENTENCE_ENDS.split(text)
        if len(sentence.split()) in SHORT
    ]
    if articles:
        with gzip.open(articles, "rt", encoding="utf8", newline="\n") as file:
            blocks = [block.split("\n") for block in file.read().split("\n\n")[:ARTICLES]]
        texts["articles"] = [Document(text.replace("\u2028", "\n")) for _, text, *_ in blocks]
    with tempfile.TemporaryDirectory() as folder:
        if scispacy and index:
            entities = Path(folder) / "kb.jsonl"
            write_entities(kb, entities)
            settings = [entities, index]
            commands["its kb_ner, scispaCy's linker"] = [scispacy, *worker, *settings]
            if ner:
                if train and not ner.exists():
                    train_ner(ner, train)
                commands["ner, scispaCy's linker"] = [scispacy, worker[0], ner, *settings]
        for name, documents in texts.items():
            print_table(name, documents, commands, rounds, entities_of)
    if stages:
        timed = {name: Linker(sys.executable, *worker, name, "stages") for name in runtime}
        print_stages(timed, [document.text for document in texts[str(corpus[0])]])


def print_table(
    name: str,
    documents: list[Document],
    commands: dict[str, list[object]],
    rounds: int,
    entities: "Entities",
) -> None:
    """Print the scores of linkers on documents, if these are annotated, and the costs."""
    linkers = {linker: Linker(*command) for linker, command in commands.items()}
    found: dict[str, list[list[Found]]] = {linker: [] for linker in linkers}
    seconds: dict[str, list[float]] = {linker: [] for linker in linkers}
    bounds = [len(documents) * i // rounds for i in range(rounds + 1)]
    for first, after in zip(bounds, bounds[1:]):
        texts = [document.text for document in documents[first:after]]
        for own, linker in linkers.items() if texts else ():
            answer = linker.asked(texts)
            found[own] += [[Found(*mention) for mention in of_text] for of_text in answer["found"]]
            seconds[own].append(answer["seconds"] / len(texts))
    for linker in linkers.values():
        linker.end()
    last = [*seconds.values()][-1]
    costs = [
        [
            own,
            f"{1 / median(seconds[own]):.1f}",
            f"{median(b / a for a, b in zip(seconds[own], last)):.2f}",
            f"{linker.start['load']:.1f}",
            f"{linker.start['memory']:.0f}",
        ]
        for own, linker in linkers.items()
    ]
    print(f"\n{name}: {len(documents)} texts, {len(last)} rounds\n\n{markdown_table(COSTS, costs)}")
    if any(document.mentions for document in documents):
        rows = [[own, *_percents(scores(entities, documents, found[own]))] for own in linkers]
        print(f"\n{markdown_table(SCORES, rows)}", flush=True)


def print_stages(linkers: dict[str, Linker], texts: list[str]) -> None:
    """Print the milliseconds of processor time per text of each stage, and its share."""
    costs = {name: linker.asked(texts)["stages"] for name, linker in linkers.items()}
    totals = {name: sum(own.values()) for name, own in costs.items()}

    def shown(name: str, seconds: float) -> str:
        return f"{1000 * seconds / len(texts):.2f} ({seconds / totals[name]:.0%})"

    rows = [
        [stage, *(shown(name, own.get(stage, 0.0)) for name, own in costs.items())]
        for stage in dict.fromkeys(stage for own in costs.values() for stage in own)
    ]
    rows.append(["all", *(shown(name, total) for name, total in totals.items())])
    print(f"\nms per text\n\n{markdown_table(['', *linkers], rows)}")


def train_ner(folder: Path, corpus: Path) -> None:
    """Train spaCy's "ner", with its labels in capitals, as scispaCy's are, and save its pipeline."""
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = list(open_corpus(corpus)(nlp))
    for doc in (example.reference for example in examples):
        doc.ents = [Span(doc, e.start, e.end, label=LABELS[e.label_].upper()) for e in doc.ents]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(EPOCHS):
        random.shuffle(examples)
        for batch in minibatch(examples, 8):
            fresh = [Example(nlp.make_doc(e.text), e.reference) for e in batch]
            nlp.update(fresh, drop=0.2, sgd=optimizer)
    nlp.to_disk(folder)


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
            (m.start, m.end): (LABELS[m.label], {entities.of(id) for id in m.ids})
            for m in document.mentions or ()
            if m.label in LABELS
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


def _is_ncbi(document: Document) -> bool:
    return any(mention.label in NCBI for mention in document.mentions or ())


def _percents(figures: Iterable[float]) -> list[str]:
    return [f"{100 * figure:.1f}" for figure in figures]


if __name__ == "__main__":
    typer.run(main)
