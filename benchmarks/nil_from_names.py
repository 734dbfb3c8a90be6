"""What the NIL threshold of ``pel start`` does: to gold mentions, and to phrases of everyday life.

python benchmarks/nil_from_names.py PIPELINE CORPUS --kb KB --limit 50
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.fitting.nil_from_names import nil_threshold_of_names
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.pipeline.scorer import scored_mentions
from spacy_pel.reading.mention import MentionInContext

EVERYDAY = """
zebra crossing, bus stop, red car, kitchen table, football match, birthday party, train station,
the committee, our results, written consent, previous study, data set, parking lot, window seat,
coffee cup, stock market, phone call, summer holiday, school teacher, garden fence, city council,
wooden spoon, film director, guitar string, railway bridge, shopping bag, paper clip, street lamp,
software update, political party, interest rate, front door, tax return, bicycle wheel,
swimming pool, post office, computer mouse, airport terminal, concert hall, jazz band, hotel lobby,
rain coat, desk lamp, football coach, newspaper article, prime minister, ice rink, board game,
wedding ring, chess player
"""


def main(
    pipeline: str,
    corpus: list[str],
    kb: Annotated[Path | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(help="Documents of each corpus; 0 takes all")] = 0,
) -> None:
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, kb=kb)
    linker.nil_threshold = None
    threshold = nil_threshold_of_names(linker)
    examples = gold_examples(nlp, linker, corpus, limit)
    link_examples(nlp, linker, examples, None)
    gold = [m for m in scored_mentions(examples, linker.kb, linker.spans_key) if m.candidates]
    groups = {
        "gold, in the KB": [m.score for m in gold if m.golds],
        "gold, in the KB, first candidate right": [m.score for m in gold if m.golds and m.right],
        "gold, not in the KB": [m.score for m in gold if not m.golds],
        "everyday phrases": everyday_scores(linker),
    }
    print(f"NIL below {threshold:.3f}")
    for name, scores in groups.items():
        print(f"{name}: {len(scores):,} mentions, {np.mean(np.array(scores) < threshold):.1%} NIL")


def everyday_scores(linker) -> np.ndarray:
    """The best score of each everyday phrase in a sentence."""
    phrases = [phrase.strip() for phrase in EVERYDAY.split(",")]
    mentions = [
        MentionInContext(f"We saw a {phrase} on that day.", 9, 9 + len(phrase))
        for phrase in phrases
    ]
    return linker.index.search(linker.retriever.mention_vectors(mentions), 1).scores[:, 0]


if __name__ == "__main__":
    typer.run(main)
