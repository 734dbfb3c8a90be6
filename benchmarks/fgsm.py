"""How FGSM's directions agree with Eq. 6 and 7, and what it costs to follow these to the letter.

    python benchmarks/fgsm.py [--steps 149] [--output benchmarks/fgsm.json]

A proxy that serves several mentions of a batch is perturbed along the sign of the batch's loss
(``per_pair = false``), or for each of its mentions along the sign of their score (``true``). This
trains the demo's retriever for some steps. Then it draws batches of the training mentions and
compares, over the numbers of all input embeddings, the two signs. Times are seconds of the processor
for a step without its update, medians of 3 batches. The demo's KB must have been built
(``make demo``). Writes one line of JSON, and prints a table.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import typer
from spacy.training.initialize import init_nlp
from spacy.util import load_config

from spacy_pel import architectures
from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.models.adversarial import FGSM
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.training.adversarial_inputs import clean_inputs
from spacy_pel.training.loop import TrainingRun
from spacy_pel.training.negatives import RandomNegatives
from spacy_pel.training.pair_passes import pairs_of
from spacy_pel.training.retriever_trainer import RetrieverTrainer

PROJECT = Path(__file__).parent.parent / "project"
BATCHES = 3
NEGATIVES = {
    "shared": RandomNegatives(32),
    "shared, in-batch": RandomNegatives(32, in_batch=True),
    "of each mention": RandomNegatives(32, shared=False),
}
REGULARIZERS = {"none": None, "batch": FGSM(), "pair": FGSM(per_pair=True)}


def main(steps: int = 149, output: Path = Path(__file__).with_suffix(".json")) -> None:
    """Train for some steps, and measure."""
    output = output.absolute()
    os.chdir(PROJECT)
    trainer, mentions = trained(steps)
    rows = []
    for n in (5, 32):
        batches = [np.random.default_rng(i).permutation(len(mentions))[:n] for i in range(BATCHES)]
        batches = [[mentions[i] for i in batch] for batch in batches]
        for name, trainer.negatives in NEGATIVES.items():
            architectures.set_dropout(trainer.model, 0.0)
            agreement = np.mean([agreements(trainer, batch) for batch in batches], axis=0)
            row = {"mentions": n, "negatives": name}
            row |= dict(zip(("negatives agree", "positives agree"), agreement.tolist()))
            architectures.set_dropout(trainer.model, 0.2)
            for regularizer, trainer.fgsm in REGULARIZERS.items():
                before = trainer.counts.entity_inputs
                row[f"{regularizer}, s"] = np.median([seconds(trainer, b) for b in batches])
                inputs = trainer.counts.entity_inputs - before
                row[f"{regularizer}, inputs"] = inputs / len(batches)
            rows.append(row)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    line = {"command": " ".join(sys.argv), "config": "configs/demo.cfg", "seed": 0, "steps": steps}
    output.write_text(json.dumps({**line, "commit": commit, "rows": rows}) + "\n")
    cells = [
        [str(v) if isinstance(v, int | str) else f"{v:.2f}" for v in row.values()] for row in rows
    ]
    print(markdown_table(list(rows[0]), cells))


def trained(steps: int) -> tuple[RetrieverTrainer, list[GoldMention]]:
    """The trainer of the demo's retriever after some steps, and gold mentions of training."""
    config = load_config(PROJECT / "configs" / "demo.cfg", {"corpora.dev.limit": 1})
    config["training"]["eval_frequency"] = steps + 1
    with TemporaryDirectory() as folder:
        run = TrainingRun(init_nlp(config), Path(folder), config.to_str())
        list(islice(run.run(), 1 + steps))  # the first step is followed by an evaluation
    linker = run.nlp.get_pipe("proxy_linker")
    examples = [example for _ in range(30) for example in next(run.batches)[1]]
    return linker.trainer, linker.trainer.mentions_to_encode(linker.learning._trainable(examples))


def agreements(trainer: RetrieverTrainer, mentions: Sequence[GoldMention]) -> tuple[float, float]:
    """The share of numbers whose sign by the batch's loss is that of Eq. 6, and of Eq. 7."""
    vectors, _ = trainer.encode_mentions(mentions)
    rows, targets = trainer.choose_rows(mentions, vectors)
    retriever, fgsm = trainer.retriever, REGULARIZERS["batch"]
    tokens = retriever.entity_tokens(trainer.pool.texts(rows, trainer.rng))
    inputs = clean_inputs(tokens, retriever.width, fgsm)
    of_batch = trainer.proxy_pass(inputs, vectors, targets).d_inputs
    owners, columns = np.nonzero(pairs_of(targets))
    is_positive = columns == targets.positive[owners]
    direction = np.where(is_positive, -1, 1)[:, None].astype(np.float32)
    inputs = clean_inputs([tokens[c] for c in columns], retriever.width, fgsm)
    _, backprop = retriever.entity_tower.begin_update(inputs)
    of_pairs = backprop(direction * vectors[owners])
    alike = np.array(
        [
            (np.sign(own) == np.sign(of_batch[column]))[own != 0].mean()
            for own, column in zip(of_pairs, columns)
        ]
    )
    return alike[~is_positive].mean(), alike[is_positive].mean()


def seconds(trainer: RetrieverTrainer, mentions: Sequence[GoldMention]) -> float:
    """The processor's seconds of a step."""
    started = time.process_time()
    trainer.step(mentions)
    return time.process_time() - started


if __name__ == "__main__":
    typer.run(main)
