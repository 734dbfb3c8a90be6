"""The time of a training step: mentions read singly or by document, entities trained or frozen.

    OMP_NUM_THREADS=1 python benchmarks/speed/training.py TEACHER --kb KB --corpus CORPUS

TEACHER is a pipeline with one BERT for both towers that has embedded KB. Times are processor time a
document, on one thread; the four ways to train take turns. The negatives are those of
project/configs/medmentions.cfg.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.language import Language
from spacy.training import Example

from spacy_pel.architectures import architecture_of, linker_folder, unpack_retriever
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.training.optimizer import AdamW

MENTION_LENGTH = 48  # tokens of a mention that is read by itself


def main(
    teacher: Path,
    kb: Annotated[Path, typer.Option(help="A knowledge base that TEACHER has embedded")],
    corpus: Annotated[Path, typer.Option(help="PubTator file")],
    batch: int = 6,
    steps: int = 4,
) -> None:
    """Print the seconds a document of each way to train."""
    examples = list(open_corpus(corpus, limit=batch * steps)(spacy.blank("en")))
    ways = {
        f"{reading}, entities {'frozen' if frozen else 'trained'}": pipeline(
            teacher, kb, reading, frozen, examples[:batch]
        )
        for frozen in (False, True)
        for reading in ("mention by mention", "by document")
    }
    spent = dict.fromkeys(ways, 0.0)
    for nlp, optimizer in ways.values():  # the first step also encodes what is mined
        nlp.update(examples[:1], sgd=optimizer)
    for first in range(0, len(examples), batch):
        for way, (nlp, optimizer) in ways.items():
            began = time.process_time()
            nlp.update(examples[first : first + batch], sgd=optimizer, drop=0.1)
            spent[way] += time.process_time() - began
    slowest = max(spent.values())
    print("| | s a document | times as fast |\n|---|---:|---:|")
    for way, seconds in spent.items():
        print(f"| {way} | {seconds / len(examples):.2f} | {slowest / seconds:.1f} |")


def pipeline(
    teacher: Path, kb: Path, reading: str, frozen: bool, examples: list[Example]
) -> tuple[Language, AdamW]:
    """A pipeline ready to be trained, which starts from the teacher."""
    linker = linker_folder(teacher)
    of_entities = architecture_of(unpack_retriever(linker / "model")).entity_settings
    model: dict[str, Any] = {
        "shared": not frozen,
        "mixed_precision": False,
        "encoder": {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(teacher)},
    }
    if reading == "by document":
        pooling = {"pooling": "mean", "entity_pooling": of_entities.pop("pooling")}
        model |= {"@architectures": "spacy-pel.DocumentEncoder.v1", "window": 256, **pooling}
    else:
        model |= {"@architectures": "spacy-pel.BiEncoder.v1", "mention_length": MENTION_LENGTH}
    model |= of_entities
    config = {
        "kb": str(kb),
        "row_kind": json.loads((linker / "cfg").read_text("utf8"))["row_kind"],
        "regularizer": None,
        "freeze_entities": frozen,
        "model": model,
        "negatives": {
            "@misc": "spacy-pel.MixedNegatives.v1",
            "n": 64,
            "p": 0.0625,
            "in_batch": True,
        },
    }
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker", config=config)
    sizes = {"mined_entities": 300, "searched_entities": 300}
    linker.initialize(lambda: examples, nlp=nlp, **({} if frozen else sizes))
    return nlp, AdamW(1e-5)


if __name__ == "__main__":
    typer.run(main)
