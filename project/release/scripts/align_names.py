"""Align the names of ontologies: each name is drawn to the other names of its entity (PEL, Eq. 3).

A step reads some entities, and the entities whose names are most similar to theirs. A name of an entity is a
mention. Its positive proxy is a row of the entity without this name, as if the KB lacked it. The rows of the
other entities of the step are its negatives. The vectors stay near those of the encoder that it begins with.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import faiss
import numpy as np
import spacy
import typer
from thinc.api import warmup_linear
from tqdm import tqdm

from spacy_pel.kb import Entity, open_source
from spacy_pel.linking.retriever import Retriever
from spacy_pel.models.architectures import encoder_of, set_dropout
from spacy_pel.models.losses import ProxyLoss, Targets
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.text.entity_texts import EntityText, proxy_texts
from spacy_pel.text.token_inputs import text_inputs
from spacy_pel.training.optimizer import AdamW, apply_gradients

ENTITIES, LOOKALIKES = 64, 3  # entities of a step, and lookalikes of each
NEAREST = 12  # from which lookalikes are drawn
MAX_LENGTH = 80  # characters of a name
SAVED_EVERY = 500  # steps


def main(
    pipeline: str,
    out: Path,
    source: Annotated[list[Path], typer.Option()],
    steps: int = 2000,
    rate: float = 1e-4,
    alpha: float = 32.0,
    nearness: float = 4.0,
    seed: int = 0,
) -> None:
    """Save PIPELINE to OUT, with the encoder of names of its linker aligned on the names of --source.

    --nearness weighs the squared distance to the vectors of the encoder that it begins with.
    """
    nlp = spacy.load(pipeline)
    linker = linker_of(nlp)
    student, teacher = Retriever(linker.model), Retriever(linker_of(spacy.load(pipeline)).model)
    set_dropout(linker.model, 0.1)
    encoder_of(student.entity_tower).transformer.get_input_embeddings().weight.requires_grad_(False)
    entities = [
        entity._replace(canonical_name=names[0], aliases=tuple(names[1:]))
        for path in source
        for entity in open_source(path).entities
        if len(names := [name for name in entity.names if len(name) < MAX_LENGTH]) > 1
    ]
    print(f"{len(entities):,} entities, {sum(len(e.names) for e in entities):,} names")
    titles = [EntityText(entity.canonical_name) for entity in entities]
    vectors = np.concatenate(
        [teacher.entity_vectors(titles[i : i + 4096]) for i in tqdm(range(0, len(titles), 4096))]
    )
    lookalikes = _nearest(vectors)
    loss, optimizer = ProxyLoss(alpha, bias="first_batch"), AdamW(warmup_linear(rate, 50, steps))
    rng = np.random.default_rng(seed)
    bar = tqdm(total=steps, mininterval=30)
    for step, chosen in enumerate(_steps(lookalikes, rng), 1):
        mentions, rows = zip(*(_split(entities[place], rng) for place in chosen))
        inputs = text_inputs(student.entity_tokens([*mentions, *rows]))
        outputs, backprop = student.entity_tower.begin_update(inputs)
        n = len(chosen)
        targets = Targets(np.arange(n), ~np.eye(n, dtype=bool))
        (d_mentions, d_rows), value = loss((outputs[:n], outputs[n:]), targets)
        change = outputs[:n] - teacher.entity_vectors(mentions)
        backprop(np.concatenate([d_mentions + nearness * change / n, d_rows]))
        apply_gradients(student.model, optimizer)
        optimizer.step_schedules()
        bar.update()
        kept = 1 - float((change**2).sum(axis=1).mean()) / 2
        bar.set_postfix(loss=f"{value:.3f}", cosine=f"{kept:.3f}", refresh=False)
        if step % SAVED_EVERY == 0 or step == steps:
            nlp.to_disk(out)
        if step == steps:
            break
    print(json.dumps({"loss": value, "cosine": kept}))


def _nearest(vectors: np.ndarray) -> np.ndarray:
    """Return the places of the nearest other vectors of each, int64 [n, NEAREST]."""
    index = faiss.index_factory(vectors.shape[1], "IVF512,SQ8", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:: max(1, len(vectors) // 50_000)])
    index.add(vectors)
    index.nprobe = 4
    return index.search(vectors, NEAREST + 1)[1][:, 1:]


def _steps(lookalikes: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the distinct entities of each step, endlessly."""
    while True:
        order = rng.permutation(len(lookalikes))
        for first in range(0, len(order) - ENTITIES, ENTITIES):
            seeds = order[first : first + ENTITIES]
            near = rng.permuted(lookalikes[seeds], axis=1)[:, :LOOKALIKES]
            chosen = np.unique(np.concatenate([seeds, near.ravel()]))
            yield chosen[chosen >= 0]


def _split(entity: Entity, rng: np.random.Generator) -> tuple[EntityText, EntityText]:
    """Return a name of an entity, alone, and a row of the entity without this name."""
    names = list(entity.names)
    asked = names.pop(rng.integers(len(names)))
    rest = entity._replace(canonical_name=names[0], aliases=tuple(names[1:]))
    rows = proxy_texts(rest, "name")
    return EntityText(asked), rows[rng.integers(len(rows))]


if __name__ == "__main__":
    typer.run(main)
