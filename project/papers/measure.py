"""Measure a trained linker on dev sets: recall, NIL, and the further figures of a table."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.training import Example

from spacy_pel.evaluation.evaluate import gold_examples, link_examples
from spacy_pel.metrics.linking import average_precision
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.pipeline.proxy_linker import ProxyLinker
from spacy_pel.spans import gold_ids, mention_spans

# Enough that 64 are left where some are hidden.
CANDIDATES = 96


def measured(
    nlp: Language, dev: dict[str, str], table: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Measure a linker, which has its knowledge base: for each dev set ``figures_of``, and ``also``.

    The table says ``mentions``: about how many are drawn of all corpora together, in whole documents;
    0: each corpus as a whole. ``hidden``: the share of gold entities that are hidden from the search
    when NIL is measured; 0: NIL is what the knowledge base lacks. ``also``: any of "jointly" and
    "discovery", which needs a ``folder``.
    """
    linker = linker_of(nlp)
    linker.search.candidates = CANDIDATES
    limit, also = table.get("documents", 0), table.get("also", ())
    sets = {name: gold_examples(nlp, linker, [path], limit) for name, path in dev.items()}
    if table.get("mentions"):
        everything = [example for examples in sets.values() for example in examples]
        sets = {" + ".join(dev): _drawn(everything, linker, table["mentions"])}
    found = {}
    for name, examples in sets.items():
        link_examples(nlp, linker, examples)
        found[name] = figures_of(linker, examples, table.get("hidden", 0.0))
    if also:  # here, because it is slow to import and few tables need it
        from joint_metrics import cross_fitted_discovery, joint_metrics

        for name, path in dev.items():
            if "jointly" in also:
                found[name]["jointly"] = joint_metrics(nlp, path, limit=limit)
            if "discovery" in also:
                found[name]["discovery"] = cross_fitted_discovery(nlp, path, folder, limit=limit)
    # With five digits.
    return json.loads(json.dumps(found), parse_float=lambda x: float(f"{float(x):.5g}"))


def _drawn(examples: list[Example], linker: ProxyLinker, mentions: int) -> list[Example]:
    """Return a fixed random sample of documents with at least so many mentions."""
    kept, count = [], 0
    for example in random.Random(0).sample(examples, len(examples)):
        if count >= mentions:
            break
        kept.append(example)
        count += len(mention_spans(example.reference, linker.spans_key))
    return kept


def figures_of(linker: ProxyLinker, examples: list[Example], hidden: float) -> dict[str, Any]:
    """Return the figures of linked examples, with a share of the gold entities ``hidden`` for NIL.

    Recall is of the mentions whose entity the knowledge base has; ``nil`` is the average precision of
    NIL. For paired intervals, by mention: ``documents``, the number of mentions of each; ``hits``,
    whether the first is right; ``is_nil``; and ``scores``, 10,000 times the best score that is left.
    """
    kb, trained = linker.kb, set(linker.cfg["trained_entities"])
    mentions, sizes = [], []
    for example in examples:
        golds = mention_spans(example.reference, linker.spans_key)
        links = mention_spans(example.predicted, linker.spans_key)
        sizes.append(len(golds))
        for gold, link in zip(golds, links, strict=True):
            ids = {kb[id].concept_id for id in gold_ids(gold) if id in kb}
            mentions.append((ids, link._.kb_candidates))
    entities = sorted({id for ids, _ in mentions for id in ids})
    gone = set(random.Random(0).sample(entities, round(hidden * len(entities))))
    ranks, scores, is_nil = [], [], []
    for ids, candidates in mentions:
        found = [candidate["id"] for candidate in candidates]
        ranks.append(next((n for n, id in enumerate(found) if id in ids), len(found) + 1))
        scores.append(next((c["score"] for c in candidates if c["id"] not in gone), -1e3))
        is_nil.append(not ids - gone)
    in_kb = np.array([bool(ids) for ids, _ in mentions], dtype=bool)
    seen = np.array([bool(ids & trained) for ids, _ in mentions], dtype=bool)

    def recalls(among: np.ndarray) -> dict[str, float | None]:
        own = np.array(ranks)[among]
        return {f"recall@{k}": float((own < k).mean()) if len(own) else None for k in (1, 64)}

    hits = (str(int(n < 1)) if ids else "-" for n, (ids, _) in zip(ranks, mentions))
    return {
        "mentions": len(mentions),
        "in_kb": int(in_kb.sum()),
        **recalls(in_kb),
        "seen": recalls(seen),
        "unseen": recalls(in_kb & ~seen),
        "nil": average_precision(scores, is_nil),
        "documents": sizes,
        "hits": "".join(hits),
        "is_nil": "".join(str(int(nil)) for nil in is_nil),
        "scores": [round(1e4 * score) for score in scores],
    }
