"""Measure "pel start" on unseen names: names removed from an ontology, then linked.

    python benchmarks/zero_shot.py SOURCE... [--encoder ENCODER]... [--questions 2000]

A question is a name of an entity that has others, at most one of each entity. All questions are taken out
of the ontology, also where an entity writes them with other blanks, punctuation or case. If that is the
canonical name, the first alias takes its place. "pel start" makes a pipeline of what is left, with each
ENCODER, and links each question, a text of its own. The correct answer is the entity that lost the name.
So a linker is measured without annotations, on an ontology that it never saw.

Prints recall@k of scispaCy's TF-IDF (scispacy_recall.py), and of each pipeline, whose ranking orders them.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import spacy
import typer
from scispacy_recall import KS, Dictionary
from spacy.tokens import Span

from spacy_pel import KnowledgeBase
from spacy_pel.kb import Entity
from spacy_pel.kb.readers.build_from_sources import build_from_sources
from spacy_pel.metrics.linking import markdown_table
from spacy_pel.package.start import RELEASED, start


def main(
    source: list[Path], encoder: list[str] = [RELEASED], questions: int = 2000, seed: int = 0
) -> None:
    """Print recall@k of names that are taken out of each SOURCE."""
    for path in source:
        with TemporaryDirectory() as folder:
            asked, left = taken_out(
                build_from_sources([path], Path(folder, "whole")), questions, seed
            )
            rest = Path(folder, "rest.jsonl")
            rest.write_text("\n".join(json.dumps(entity._asdict()) for entity in left), "utf8")
            kb = build_from_sources([rest], Path(folder, "kb"))
            golds = [{kb.number(id)} for id in asked.values()]
            rows = [["scispaCy's TF-IDF", *percent(Dictionary(kb).hits(list(asked), golds))]]
            for number, each in enumerate(encoder):
                linker = Path(folder, f"linker{number}")
                start([rest], linker, encoder=each)
                rows.append([each, *percent(linked(linker, asked))])
        print(f"\n{path}: {len(asked):,} names of {len(left):,} entities\n")
        print(markdown_table(["", *(f"@{k}" for k in KS)], rows), flush=True)


def taken_out(kb: KnowledgeBase, n: int, seed: int) -> tuple[dict[str, str], list[Entity]]:
    """Return a sample of names with the ids of their entities, and all entities without them."""
    entities = list(kb)
    names = [(name, place) for place, entity in enumerate(entities) for name in entity.names]
    asked: dict[str, str] = {}
    taken = set()
    for name, place in random.Random(seed).sample(names, len(names)):
        entity = entities[place]
        kept = entity.without(name)
        if kept and place not in taken and name not in asked and len(asked) < n:
            asked[name] = entity.concept_id
            taken.add(place)
            entities[place] = kept
    return asked, entities


def linked(pipeline: Path, asked: dict[str, str]) -> Sequence[np.ndarray]:
    """For each question and each k whether its entity is among the first k candidates."""
    nlp = spacy.load(pipeline, exclude=["kb_matcher"])
    docs = [nlp.make_doc(name) for name in asked]
    for doc in docs:
        doc.ents = [Span(doc, 0, len(doc), label="ENTITY")]
    hits = []
    for doc, id in zip(nlp.pipe(docs), asked.values()):
        found = [candidate["id"] for candidate in doc.ents[0]._.kb_candidates]
        rank = found.index(id) if id in found else max(KS)
        hits.append(np.array(KS) > rank)
    return hits


def percent(hits: Sequence[np.ndarray]) -> list[str]:
    return [f"{100 * share:.1f}" for share in np.mean(hits, axis=0)]


if __name__ == "__main__":
    typer.run(main)
