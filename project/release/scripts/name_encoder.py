"""Train the name encoder of a linker on, with the names of many ontologies.

Two names of an entity are a pair: a mention, and a proxy of its entity. The loss is the proxy-based one
(PEL, Eq. 3, with s - b), in both directions. The negatives of a pair are the other pairs of its batch. They
come from the same ontology, since synonyms in other ontologies are no negatives, and most are similar names.

The mention tower and the ranking are trained with the old vectors. So the squared distance between the new
and the old vector of a name is added to the loss.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import spacy
import torch
import typer
from safetensors.torch import load_file, save
from tqdm import trange

from spacy_pel.io.whole_files import whole_file
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.records.names import normalised
from spacy_pel.models.architectures import Retriever, encoder_of, set_dropout
from spacy_pel.models.losses import Targets, centred_proxy_loss
from spacy_pel.models.packed_weights import under
from spacy_pel.pipeline.pipelines import linker_of
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.text.token_inputs import text_inputs

GROUPS, GROUP = 8, 16  # similar pairs are a group, and groups are a batch
LONGEST = 44  # characters of a name: long names take most of the time
WARMUP = 30  # steps
MAX_NORM = 20.0  # of a gradient
SAVED = 100  # steps between checkpoints
# The shares of proxies with the types of the entity, and with its canonical name after another name.
WITH_TYPES, WITH_CANONICAL = 0.5, 0.15
HELD = 8  # one of so many names is compared with its old vector


class Ontology(NamedTuple):
    """The entities of a source that have several names.

    Attributes:
        names: The names of each entity, the canonical name first.
        types: The types of each entity, in words.
        words: float32 [n, d], the mean embedding of the word pieces of each first name, of length 1.
    """

    names: Sequence[list[str]]
    types: Sequence[str]
    words: np.ndarray


def main(
    pipeline: str,
    out: Path,
    source: Annotated[list[str], typer.Option(help="An ontology and its share: hp.obo=15")],
    without: Annotated[list[Path], typer.Option(help="Ontologies whose names are left out")] = [],
    steps: int = 1000,
    rate: float = 3e-4,
    hold: Annotated[float, typer.Option(help="The weight of the distance to old vectors")] = 8.0,
) -> None:
    """Save PIPELINE to OUT with the trained encoder.

    Afterwards, embed the KB and calibrate. After an interruption, the same call resumes from the last
    checkpoint.
    """
    nlp = spacy.load(pipeline)
    linker = linker_of(nlp)
    retriever, old = linker.model, linker_of(spacy.load(pipeline)).model
    set_dropout(linker.model, 0.0)
    hidden = {
        normalised(name) for path in without for e in open_source(path).entities for name in e.names
    }
    paths, shares = zip(*(each.rsplit("=", 1) for each in source))
    ontologies = [read(Path(path), hidden, old) for path in paths]
    cumulative = np.cumsum(np.array(shares, dtype=float))

    tower, old_tower = retriever.get_ref("entity"), old.get_ref("entity")
    encoder = encoder_of(tower).float()
    weights = dict(encoder.named_parameters())
    optimizer = torch.optim.AdamW(weights.values(), weight_decay=0.0)
    loss = centred_proxy_loss()
    checkpoint, first = out.with_name(f"{out.name}.checkpoint"), 0
    if checkpoint.is_file():
        state = load_file(checkpoint)
        loss.bias, first = state["bias"].item(), int(state["step"])
        encoder.load_state_dict(under("encoder.", state))
        for name, weight in weights.items():
            optimizer.state[weight] = under(f"{name}:", state)
    progress = trange(first, steps, initial=first, total=steps)
    for step in progress:
        rng = np.random.default_rng(step)
        place = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        mentions, proxies = batch(ontologies[place], rng)
        texts = retriever.attrs["entity_reader"].tokens([*mentions, *proxies])
        vectors, backprop = tower.begin_update(text_inputs(texts))
        m, e = np.split(vectors, 2)
        targets = Targets(np.arange(len(m)), different(mentions, proxies))
        reverse = Targets(targets.positive, targets.negatives.T)
        (d_m, d_e), forwards = loss((m, e), targets)
        (more_e, more_m), backwards = loss((e, m), reverse)
        gradient = np.concatenate([d_m + more_m, d_e + more_e])
        held = slice(step % HELD, None, HELD)
        moved = vectors[held] - old_tower.predict(text_inputs(texts[held]))
        gradient[held] += 2 * hold * moved / len(moved)
        backprop(gradient)
        torch.nn.utils.clip_grad_norm_(weights.values(), MAX_NORM)
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / WARMUP, 1 - step / steps)
        optimizer.step()
        optimizer.zero_grad()
        cosine = 1 - (moved**2).sum(axis=1).mean() / 2
        progress.set_postfix(loss=f"{forwards + backwards:.2f}", cosine_to_old=f"{cosine:.2f}")
        if (step + 1) % SAVED == 0:
            numbers = {"bias": loss.bias, "step": step + 1}
            state = {name: torch.tensor(n, dtype=torch.float64) for name, n in numbers.items()}
            state |= {f"encoder.{name}": w for name, w in encoder.state_dict().items()}
            for name, weight in weights.items():
                state |= {f"{name}:{key}": part for key, part in optimizer.state[weight].items()}
            with whole_file(checkpoint, "xb") as file:
                file.write(save(state))
    nlp.to_disk(out)
    checkpoint.unlink(missing_ok=True)


def read(path: Path, hidden: set[str], retriever: Retriever) -> Ontology:
    """Return the entities of a source that have several names that are not ``hidden``."""
    names, types = [], []
    for entity in open_source(path).entities:
        own = {normalised(name): name for name in reversed(entity.names) if len(name) <= LONGEST}
        kept = [name for key, name in reversed(own.items()) if key not in hidden]
        if len(kept) > 1:
            names.append(kept)
            types.append(", ".join(entity.types))
    weights = encoder_of(retriever.get_ref("entity")).transformer.get_input_embeddings().weight
    embeddings = weights.detach().float().numpy()
    embeddings = embeddings - embeddings.mean(axis=0)
    tokens = retriever.attrs["entity_reader"].tokens([EntityText(own[0]) for own in names])
    words = np.stack([embeddings[t.ids[t.start : t.end]].mean(axis=0) for t in tokens])
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    print(f"{path}: {len(names):,} entities with {sum(map(len, names)):,} names")
    return Ontology(names, types, words)


def batch(
    ontology: Ontology, rng: np.random.Generator
) -> tuple[list[EntityText], list[EntityText]]:
    """Return the mentions and the proxies of some entities and of those with the most similar names."""
    seeds = rng.choice(len(ontology.names), GROUPS, replace=False)
    similar = np.argpartition(-(ontology.words[seeds] @ ontology.words.T), GROUP, axis=1)[:, :GROUP]
    mentions, proxies = [], []
    for number in np.unique([*seeds, *similar.ravel()]):
        names = ontology.names[number]
        mention, proxy = rng.choice(len(names), 2, replace=False)
        first = names[0] if mention else names[1]
        types = ontology.types[number] if rng.random() < WITH_TYPES else ""
        behind = first if rng.random() < WITH_CANONICAL and names[proxy] != first else ""
        mentions.append(EntityText(names[mention]))
        proxies.append(EntityText(names[proxy], types, behind))
    return mentions, proxies


def different(mentions: Sequence[EntityText], proxies: Sequence[EntityText]) -> np.ndarray:
    """Tell which proxies are negatives of each mention, bool [n, n]: those of other names and places."""
    ours, theirs = (np.array([normalised(t.title) for t in texts]) for texts in (mentions, proxies))
    negatives: np.ndarray = ours[:, None] != theirs
    np.fill_diagonal(negatives, False)
    return negatives


if __name__ == "__main__":
    typer.run(main)
