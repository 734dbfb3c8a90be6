"""Signs that curators found in abstracts (GSC+): how many a pipeline of "pel start" finds, and two peers.

    python -m spacy pel start hp.obo hpo_linker --encoder en_pel_mesh_sm
    pip install fasthpocr pronto    # the index takes 5 minutes of processor time and more:
    python -c "from FastHPOCR.IndexHPO import IndexHPO; IndexHPO('hp.obo', 'index').index()"
    pip install fenominal    # and take hp.json, which the HPO publishes beside hp.obo
    python benchmarks/phenotypes.py hpo_linker gsc.tsv.gz --fasthpocr index/hp.index --fenominal hp.json

Precision, recall and F1 of the ids of a document, and of mentions with their bounds and ids. An id that has
become another's is read as that one. Names inside
other names count, as curators mark them. Seconds are of the processor.
"""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time

import spacy
import typer

from spacy_pel.metrics.linking import markdown_table

Found = tuple[int, int, str]  # start, end, id


def main(
    pipeline: Path, gsc: Path, fasthpocr: Path | None = None, fenominal: Path | None = None
) -> None:
    """Print how well PIPELINE finds what is annotated in the file GSC, and so for the peers.

    --fasthpocr is an index of FastHPOCR, and --fenominal the ontology as a JSON file.
    """
    with gzip.open(gsc, "rt", encoding="utf8") as file:
        blocks = [block.splitlines()[1:] for block in file.read().strip().split("\n\n")]
    texts = [text for text, *_ in blocks]
    parts = {
        "kb_matcher": {"spans_key": "names", "nested": True},
        "proxy_linker": {"spans_key": "names"},
    }
    nlp = spacy.load(pipeline, config={"components": parts})
    kb = nlp.get_pipe("proxy_linker").kb

    def today(found: Iterable[Found]) -> set[Found]:
        return {(start, end, kb[id].concept_id if id in kb else id) for start, end, id in found}

    rows = [line.split("\t") for _, *lines in blocks for line in lines]
    sizes = [len(lines) for _, *lines in blocks]
    gold, at = [], 0
    for size in sizes:
        gold.append(today((int(a), int(b), id) for a, b, _, id in rows[at : at + size]))
        at += size
    systems: dict[str, Callable[[], list[set[Found]]]] = {
        "pel start": lambda: [
            {
                (e.start_char, e.end_char, e._.kb_id)
                for e in doc.spans["names"]
                if e._.kb_id != "NIL"
            }
            for doc in nlp.pipe(texts)
        ]
    }
    if fasthpocr is not None:
        from FastHPOCR.HPOAnnotator import HPOAnnotator

        annotator = HPOAnnotator(str(fasthpocr))
        systems["FastHPOCR"] = lambda: [
            today((x.startOffset, x.endOffset, x.hpoUri) for x in annotator.annotate(text))
            for text in texts
        ]
    if fenominal is not None:
        from fenominal import Fenominal

        mapper = Fenominal(str(fenominal))
        systems["fenominal"] = lambda: [
            today((x["span"]["start"], x["span"]["end"], x["termId"]) for x in of_text)
            for of_text in map(json.loads, map(mapper.map_text, texts))
        ]
    table = []
    for name, find in systems.items():
        began = process_time()
        found = find()
        seconds = process_time() - began
        ids = [[{id for *_, id in own} for own in side] for side in (found, gold)]
        table.append([name, scores(*ids), scores(found, gold), f"{seconds:.1f}"])
    head = ["", "documents: P, R, F1", "mentions: P, R, F1", "seconds"]
    print(markdown_table(head, table))


def scores(found: list[set], gold: list[set]) -> str:
    """Precision, recall and F1 in %."""
    right = sum(len(own & meant) for own, meant in zip(found, gold))
    n_found, n_gold = sum(map(len, found)), sum(map(len, gold))
    figures = right / n_found, right / n_gold, 2 * right / (n_found + n_gold)
    return ", ".join(f"{100 * figure:.1f}" for figure in figures)


if __name__ == "__main__":
    typer.run(main)
