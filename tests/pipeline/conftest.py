"""A linker trained on a problem so small that it is learned in seconds: which MS is meant here?"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from spacy_pel.batch.embed import embed_kb
from spacy_pel.kb import Entity, build_kb
from spacy_pel.models.architectures import entity_vectors
from spacy_pel.text.entity_texts import proxy_texts
from spacy_pel.text.mention_inputs import MentionInContext

from ..conftest import ENTITIES, with_mentions

# Organs times findings. "liver cyst" and "lung pain" are in no training text: they are zero-shot.
ORGANS = ("liver", "lung", "bone", "skin", "eye", "ear")
FINDINGS = ("cyst", "pain", "ulcer", "edema", "tumor")
PLAIN = {f"{o} {f}": f"D{i}{j}" for i, o in enumerate(ORGANS) for j, f in enumerate(FINDINGS)}
ZERO_SHOT = ("liver cyst", "lung pain")
PROBLEM = [*ENTITIES, *(Entity(id, name) for name, id in PLAIN.items())]
TRAIN = [
    ("The patient has MS and takes aspirin.", {"MS": "C01", "aspirin": "C05"}),
    ("She suffers from MS in her brain.", {"MS": "C01"}),
    ("A patient with MS was treated.", {"MS": "C01"}),
    ("The peptide was measured by MS.", {"MS": "C02"}),
    ("Ions of the sample are counted with MS.", {"MS": "C02"}),
    ("The sample was sent to MS for its ions.", {"MS": "C02"}),
    ("The patient has RA of the joints.", {"RA": "C03"}),
    ("Blood flows from the RA of the heart.", {"RA": "C04"}),
    ("Stones of the kidney were seen, but no XYZ.", {"kidney": "C07", "XYZ": "NIL"}),
    *((f"The patient has {n}.", {n: id}) for n, id in PLAIN.items() if n not in ZERO_SHOT),
]
TEST = [
    ("The patient has MS.", {"MS": "C01"}),
    ("The peptide was counted with MS.", {"MS": "C02"}),
    *((f"The patient has {n}.", {n: PLAIN[n]}) for n in ZERO_SHOT),
]
CONFIG: dict[str, Any] = {
    "candidates": 5,
    "sure_probability": None,  # the threshold alone decides what is NIL
    "model": {
        "pooling": "focus",
        "mention_length": 32,
        "entity_length": 32,
        "encoder": {"layers": 1, "width": 32, "heads": 2, "vocab_size": 400, "max_tokens": 64},
    },
    "negatives": {"@misc": "spacy-pel.RandomNegatives.v1", "n": 7, "in_batch": True},
}
SCRATCH = {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]}
RERANK = 4


class Trained(NamedTuple):
    """A pipeline of a linker alone, the folder it is saved in, and that of its KB."""

    nlp: Language
    path: Path
    kb: Path


def examples(nlp: Language, texts=TRAIN, spans_key: str | None = None) -> list[Example]:
    """Texts as examples whose predicted docs have the mentions."""
    return [
        Example(
            with_mentions(nlp, text, dict.fromkeys(mentions, ""), spans_key),
            with_mentions(nlp, text, mentions, spans_key),
        )
        for text, mentions in texts
    ]


def mentions_of(nlp: Language, texts=TEST) -> list[Doc]:
    """Texts as docs whose mentions have no ids yet."""
    return [with_mentions(nlp, text, dict.fromkeys(mentions, "")) for text, mentions in texts]


def results(docs) -> list[list[Any]]:
    """All that the linker wrote on the entities of the docs, as JSON gives it back."""
    return [
        [e.kb_id_, e._.kb_score, e._.kb_probability, list(e._.kb_candidates)]
        for doc in docs
        for e in doc.ents
    ]


def brute_force(linker, text: str, mention: str) -> dict[str, float]:
    """Score of every entity of the KB: its best name's, by numpy alone."""
    start = text.index(mention)
    context = MentionInContext(text, start, start + len(mention))
    vector = linker.retriever.predict([context])[0]
    scores = {}
    for entity in linker.kb:
        rows = entity_vectors(linker.retriever, proxy_texts(entity, "name"))
        scores[entity.concept_id] = float((rows @ vector).max())
    return scores


def untrained(kb: Path, config: dict[str, Any] = CONFIG, seed: int = 0) -> Language:
    """A pipeline of a linker alone, initialised."""
    fix_random_seed(seed)
    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={**config, "kb": str(kb)})
    nlp.initialize(lambda: examples(nlp))
    return nlp


def train(nlp: Language, steps: int, drop: float = 0.0, rate: float = 0.005) -> list[float]:
    """Losses of some steps, each on all of TRAIN."""
    optimizer = Adam(rate)
    losses = [nlp.update(examples(nlp), sgd=optimizer, drop=drop) for _ in range(steps)]
    return [loss["proxy_linker"] for loss in losses]


def embedded(nlp: Language, kb: Path) -> Language:
    """The pipeline, whose linker has learnt, with the vectors of its KB."""
    linker = nlp.get_pipe("proxy_linker")
    linker.finish_training()
    embed_kb(kb, linker)
    linker.set_kb(kb)
    return nlp


def saved(nlp: Language, kb: Path, folder: Path) -> Trained:
    """The trained linker, its KB with its vectors, and the pipeline as saved in the folder."""
    embedded(nlp, kb).to_disk(folder / "pipeline")
    return Trained(nlp, folder / "pipeline", kb)


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB of PROBLEM without vectors, for the tests of one file."""
    return build_kb(PROBLEM, tmp_path_factory.mktemp("problem") / "kb").path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The linker of TRAIN, its KB with the vectors of this linker. For reading alone."""
    folder = tmp_path_factory.mktemp("trained")
    kb = build_kb(PROBLEM, folder / "kb").path
    nlp = untrained(kb)
    train(nlp, 60)
    return saved(nlp, kb, folder)


def linked(nlp: Language, batch_size: int = 7) -> list[list[Any]]:
    """What the linker of a pipeline says of the training mentions."""
    return results(nlp.pipe(mentions_of(nlp, TRAIN), batch_size=batch_size))


def with_reranker(trained: Trained, **changes: Any) -> Language:
    """A pipeline of the trained retriever and a reranker that is not trained."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    encoder = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(trained.path)}
    config = {
        "path": str(trained.path),
        "candidates": 5,
        "rerank": RERANK,
        "reranker": {
            "@architectures": "spacy-pel.CrossEncoder.v1",
            "length": 48,
            "encoder": encoder,
        },
        "regularizer": None,
    }
    nlp.add_pipe("proxy_linker", config={**config, **changes})
    return nlp


@pytest.fixture(scope="session")
def reranked(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The retriever of ``trained`` with a reranker of TRAIN. For reading alone."""
    nlp = with_reranker(trained)
    nlp.initialize(lambda: examples(nlp))
    train(nlp, 60, rate=0.01)
    nlp.get_pipe("proxy_linker").finish_training()
    path = tmp_path_factory.mktemp("reranked") / "pipeline"
    nlp.to_disk(path)
    return Trained(nlp, path, trained.kb)
