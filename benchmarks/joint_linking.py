"""Mentions of a corpus linked together, against the same mentions one by one.

    python benchmarks/joint_linking.py PIPELINE KB CORPUS

Settings are fitted on every other document and used on the rest, and the other way round: the NIL
threshold, the weight of exact names, the calibration, and how mentions are joined. The first table
counts mentions whose entity the KB has, without a NIL threshold. The second counts all mentions, with
NIL as an answer. "directed" and "undirected" have the best settings of their kind. "raw" joins by the
inner products themselves, as ArboEL does (directed, and the nearest mention alone). Then a file is
linked in both ways, for the time on the CPU.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import spacy
import typer

from spacy_pel.fitting.calibrate import fit
from spacy_pel.fitting.fit_joint import GoldMentions, fitted_joint, gold_mentions
from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.jobs.joint_linking import clusters_of, numbered_ids, with_settings
from spacy_pel.jobs.link_docs import Linking
from spacy_pel.jobs.link_files import link_files
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.linking.clusters import Clusters, MentionGraph, directed_clusters
from spacy_pel.linking.exact_names import is_acronym
from spacy_pel.linking.joint import Neighbourhood
from spacy_pel.linking.mention_neighbours import mention_neighbours
from spacy_pel.spans import mention_spans

ALONE = Neighbourhood(0, 1.0, True)


def main(pipeline: str, kb: Path, corpus: str, limit: int = 0, names: bool = True) -> None:
    """Link CORPUS both ways, and print what is right."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    examples = gold_examples(nlp, linker, [corpus], limit)
    tables: dict[str, list] = {"without NIL": [], "with NIL": []}
    for half in (0, 1):
        fit(nlp, linker, examples[half::2], names=names)
        fitted, best, _ = linked_gold(nlp, linker, examples[half::2])
        tested, best_tested, scores = linked_gold(nlp, linker, examples[1 - half :: 2])
        tables["with NIL"].append(answers(fitted, tested, scores))
        tables["without NIL"].append(
            answers(with_ids(fitted, best), with_ids(tested, best_tested), scores)
        )
    for name, halves in tables.items():
        report(name, halves)
    linker.joint = fitted_joint(fitted).settings
    linker.candidates = 5  # as pel link writes
    cost(nlp, corpus)


def linked_gold(nlp, linker, examples) -> tuple[GoldMentions, list[str], np.ndarray]:
    """The gold mentions, linked, and the best candidate of each and its score, also where it is NIL."""
    with with_settings(linker, vectors=True):
        link_examples(nlp, linker, examples)
    spans = [s for e in examples for s in mention_spans(e.predicted, linker.spans_key)]
    best = [span._.kb_candidates[0]["id"] if span._.kb_candidates else "" for span in spans]
    scores = np.array([span._.kb_score or -np.inf for span in spans], dtype=np.float32)
    return gold_mentions(linker, examples), best, scores


def with_ids(gold: GoldMentions, ids: list[str]) -> GoldMentions:
    """The gold mentions with other entities."""
    return gold._replace(mentions=[m._replace(id=id) for m, id in zip(gold.mentions, ids)])


def answers(
    fitted: GoldMentions, tested: GoldMentions, scores: np.ndarray
) -> tuple[GoldMentions, dict[str, Clusters], list[str]]:
    """What each way says of the tested mentions, with the settings of the fitted ones."""
    report = fitted_joint(fitted)
    settings, by_direction = report.settings, report.by_direction
    print(settings, by_direction, flush=True)
    vectors = VectorMatrix(tested.vectors)
    ways = {"one by one": ALONE, "directed": by_direction[True], "undirected": by_direction[False]}
    found = {
        way: clusters_of(tested.mentions, vectors, settings, own, tested.pairs)[0]
        for way, own in ways.items()
    }
    ids, entities = numbered_ids([mention.id for mention in tested.mentions])
    near = mention_neighbours(vectors, 1)
    found["raw"] = directed_clusters(MentionGraph(near.numbers, near.scores, entities, scores))
    return tested, found, ids


def report(name: str, halves: list) -> None:
    """Print the table of both halves together."""
    print(
        f"\n{name}\n| way | mentions | right | of acronyms | of others | changed: to right, to wrong |"
    )
    print("|---|---|---|---|---|---|")
    right: dict[str, np.ndarray] = {}
    for way in halves[0][1]:
        rows = [rightness(gold, found[way], ids, name == "with NIL") for gold, found, ids in halves]
        right[way] = np.concatenate(rows)
    counted = np.concatenate([g.in_kb | (name == "with NIL") for g, _, _ in halves])
    acronym = np.array([is_acronym(m.text) for gold, _, _ in halves for m in gold.mentions])
    for way, own in right.items():
        shares = [100 * own[counted & rows].mean() for rows in (acronym | True, acronym, ~acronym)]
        base = right["one by one"]
        moved = f"{(own & ~base & counted).sum()}, {(base & ~own & counted).sum()}"
        print(f"| {way} | {counted.sum()} | {' | '.join(f'{s:.2f}' for s in shares)} | {moved} |")


def rightness(gold: GoldMentions, found: Clusters, ids: list[str], nil: bool) -> np.ndarray:
    """Whether each answer is right."""
    said = [ids[entity] if entity >= 0 else "" for entity in found.entities.tolist()]
    pairs = zip(said, gold.golds, gold.in_kb.tolist())
    return np.array([(id in golds) if in_kb else (nil and not id) for id, golds, in_kb in pairs])


def cost(nlp, corpus: str) -> None:
    """Print how many mentions are linked in a second on the CPU, both ways."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for way, jointly in (("warm-up", False), ("one by one", False), ("together", True)):
            started = time.process_time()
            counts = link_files(Linking(nlp, jointly=jointly), corpus, Path(folder, f"{way}.jsonl"))
            seconds[way] = time.process_time() - started
    for way in ("one by one", "together"):
        print(f"{way}: {counts.mentions / seconds[way]:.0f} mentions/s of CPU time")


if __name__ == "__main__":
    typer.run(main)
