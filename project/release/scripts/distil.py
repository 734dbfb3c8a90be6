"""Teach a small encoder the vectors that a large one gives the names of a KB (distillation).

A small encoder learns from what the large one makes of each name: alone, as a row of the KB, and as a
mention in a text. It sees no pair of names, and no id. So it also links to a KB that it has never seen.
"""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import typer
from thinc.api import warmup_linear
from tqdm import tqdm

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document import Document
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.models.architectures import (
    DocumentEncoder,
    PretrainedEncoder,
    Retriever,
    encoder_of,
    entity_vectors,
    set_dropout,
)
from spacy_pel.text.entity_texts import EntityText, proxy_texts
from spacy_pel.text.mention_inputs import DocumentContext, MentionInContext
from spacy_pel.text.token_inputs import text_inputs
from spacy_pel.training.optimizer import AdamW, apply_gradients

BATCH = 256  # names of a step
DOCUMENTS = 6  # documents of a step
CHUNK = 4096  # entities whose names are shuffled at a time
WARMUP = 40
MODEL = {
    "@architectures": "spacy-pel.DocumentEncoder.v1",
    "window": 512,
    "entity_length": 32,
    "mixed_precision": True,
    "n_numbers": 128,
}


def main(
    large: str,
    small: str,
    kb: Path,
    out: Path,
    texts: Annotated[list[Path], typer.Option()],
    rate: float = 8e-4,
    names: int = 0,
) -> None:
    """Save a pipeline to OUT whose linker has the encoder SMALL, taught by LARGE.

    Both are BERTs; SMALL may be some layers of LARGE. KB has the names; --names says how many are read,
    0: all. Of the corpora --texts mentions are read, and ids are not. --rate is the highest one.
    """
    # The teacher gives the first numbers of the mean over all tokens of a name.
    chosen = {key: MODEL[key] for key in ("n_numbers", "entity_length", "mixed_precision")}
    teacher = DocumentEncoder(PretrainedEncoder(large), entity_pooling="mean", **chosen)
    teacher.initialize(X=[])

    nlp = spacy.blank("en")
    encoder = {"@misc": "spacy-pel.PretrainedEncoder.v1", "name": small}
    config = {"kb": str(kb), "model": {**MODEL, "encoder": encoder}, "index_unit": "name"}
    linker = nlp.add_pipe("proxy_linker", config=config)
    nlp.initialize()
    set_dropout(linker.model, 0.0)
    student = linker.model
    for tower in student.layers:  # names that are not read shall fit those that are
        encoder_of(tower).transformer.get_input_embeddings().weight.requires_grad_(False)

    base = KnowledgeBase.open(kb)
    total = names or sum(len(entity.names) for entity in base)
    steps = -(-total // BATCH)
    optimizer = AdamW(warmup_linear(rate, WARMUP, steps))
    rng = np.random.default_rng(0)
    bar = tqdm(islice(batches(base, rng), steps), total=steps)
    documents = [d for path in texts for d in open_corpus(path).documents() if d.mentions]
    for rows, mentions in zip(bar, in_documents(documents, rng)):
        distance = taught(student, teacher, rows, mentions)
        apply_gradients(student, optimizer)
        optimizer.step_schedules()
        bar.set_postfix(cosine=f"{1 - distance:.3f}", refresh=False)
    # Evaluations tell seen entities from unseen ones.
    ids = {id for d in documents for mention in d.mentions for id in mention.ids if id in base}
    linker.cfg["trained_entities"] = sorted({base[id].concept_id for id in ids})
    nlp.to_disk(out)


def batches(kb: KnowledgeBase, rng: np.random.Generator) -> Iterator[list[EntityText]]:
    """Yield the rows of all names of a KB endlessly, in batches and random order."""
    while True:
        numbers = rng.permutation(kb.numbers())
        for first in range(0, len(numbers), CHUNK):
            entities = kb.entities(numbers[first : first + CHUNK])
            texts = [text for entity in entities for text in proxy_texts(entity, "name")]
            rng.shuffle(texts)
            for start in range(0, len(texts), BATCH):
                yield texts[start : start + BATCH]


def in_documents(
    documents: list[Document], rng: np.random.Generator
) -> Iterator[list[MentionInContext]]:
    """Yield the mentions of ``DOCUMENTS`` documents at a time, endlessly."""
    rng.shuffle(documents)
    endless = cycle(documents)
    while True:
        yield [
            MentionInContext(document.text, mention.start, mention.end, context)
            for document in islice(endless, DOCUMENTS)
            for context in [DocumentContext()]
            for mention in document.mentions
        ]


def taught(
    student: Retriever,
    teacher: Retriever,
    texts: list[EntityText],
    mentions: list[MentionInContext],
) -> float:
    """Draw the student's vectors of rows of the KB, and of mentions, to the teacher's of their words.

    The name of each row is also read as a mention, alone. All vectors have length 1, so half of the
    squared distance is the cosine's distance from 1, whose mean is returned. Its gradient is the difference.
    """
    alone = [MentionInContext(text.title, 0, len(text.title)) for text in texts]
    words = [mention.surface for mention in (*alone, *mentions)]
    goals = entity_vectors(teacher, [EntityText(name) for name in words])
    rows = text_inputs(student.attrs["entity_reader"].tokens(texts))
    distances = []
    for model, inputs, goal in (
        (student.get_ref("entity"), rows, goals[: len(texts)]),
        (student, alone, goals[: len(texts)]),
        (student, mentions, goals[len(texts) :]),
    ):
        vectors, backprop = model.begin_update(inputs)
        difference = vectors - goal
        backprop(difference / len(goal))
        distances.append((difference**2).sum(axis=1).mean() / 2)
    return float(np.mean(distances))


if __name__ == "__main__":
    typer.run(main)
