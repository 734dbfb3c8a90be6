"""``pel evaluate``: linking metrics of a pipeline on gold mentions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.language import Language

from ..evaluation.linking_metrics import metrics_table
from ..evaluation.nil_metrics import nil_summary
from ..pipeline.pipelines import linker_of, load_pipeline
from ..system.whole_files import whole_file
from ..tasks.card_figures import linker_state
from ..tasks.gold_examples import check_ids, gold_examples, link_examples
from .apps import Component, Corpora, OtherKB, Pipeline, SpansKey, command, msg, pel

# Of the scores, what is written; the rest are the same figures under plain names, for configs.
COUNTED = (
    *("mentions", "in_kb", "seen", "unseen", "recall@", "mrr", "nil", "concepts"),
    *("expected_calibration_error", "nel_micro_"),
)


@command(pel, "evaluate")
def evaluate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON file to write")],
    kb: OtherKB = None,
    limit: Annotated[int, typer.Option(min=0, help="Documents taken of each file; 0: all")] = 0,
    spans_key: SpansKey = None,
    rerank: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Candidates that the reranker reads again; 0: none  [default: the linker's own]",
        ),
    ] = None,
    component: Component = "proxy_linker",
) -> None:
    """Score linking on gold mentions.

    Gives recall@1/5/16/64, MRR and spaCy's nel_micro_p/r/f.

    Only the linker runs. Each figure is counted over all mentions (a gold id that the KB lacks is
    a miss), over those in the KB, and over entities seen and unseen in training; recall and MRR
    look at the candidates, also of a mention called NIL. How well NIL is told, and recall with NIL
    as a class, is in "nil"; "expected_calibration_error" is of a calibrated pipeline.
    mentions_per_second is of linking alone: no loading, tokenising or scoring. With --rerank 0
    a pipeline that reranks is scored without: the difference is what its reranker is worth.

    \b
    Example:
      python -m spacy pel evaluate training/model-best dev.pubtator.gz --output metrics.json
    """
    from tqdm import tqdm

    with whole_file(output) as file:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
        if rerank is not None:
            linker.rerank = rerank
        if rerank:
            linker.reranker  # refuses a pipeline without one
        with tqdm(desc="Linking", unit=" documents") as bar:
            metrics = evaluate(nlp, corpus, component=component, limit=limit, progress=bar.update)
        json.dump({"pipeline": pipeline, **metrics}, file, indent=2)
        file.write("\n")
    typer.echo(metrics_table(metrics))
    typer.echo(nil_summary(metrics["nil"]))
    msg.good(f"{metrics['mentions_per_second']:,.0f} mentions a second; metrics: {output}")


def evaluate(
    nlp: Language,
    corpus: Sequence[Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    progress: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Link the gold mentions of corpora, and score it over the 64 best candidates.

    Mentions are where the linker is set to have them. limit: documents taken of each file; 0 takes
    all. progress: called after each document. Gives the metrics of ``scorer.linking_scores``,
    ``mentions_per_second`` (of the linker's ``pipe``), ``reranked`` (how many candidates of a
    mention), ``kb``, ``kb_entities``, ``corpus``, ``limit``, ``spans_key``, and ``linker``: what
    they are the figures of, see ``linker_state``.
    Raises PelError if there is no linker or no mention, the KB has none of the gold ids, or it has
    no vectors of the linker's encoder.
    """
    linker = linker_of(nlp, component)
    examples = gold_examples(nlp, linker, corpus, limit)
    check_ids(examples, linker, corpus)
    start = time.perf_counter()
    link_examples(nlp, linker, examples, progress)
    seconds = time.perf_counter() - start
    scores = linker.score(examples)
    return {
        **{name: value for name, value in scores.items() if name.startswith(COUNTED)},
        "mentions_per_second": scores["mentions"] / seconds,
        "reranked": linker.reranked,
        "kb": str(linker.kb.path),
        "kb_entities": len(linker.kb),
        "corpus": [str(path) for path in corpus],
        "limit": limit,
        "spans_key": linker.spans_key,
        "linker": linker_state(nlp, component),
    }
