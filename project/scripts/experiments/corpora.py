"""The profiles: which corpora and knowledge bases the experiments run on, and for how long."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

# Where each world has a knowledge base of its own: their mentions together, as the paper counts what
# retrievers find (micro), and the mean over worlds, as it counts what rerankers do (macro).
WORLDS = {"all worlds": "micro", "mean of worlds": "macro"}


class Corpus(NamedTuple):
    """A corpus with its knowledge base.

    config, reranker: the configs that variants are laid over. prepare: arguments of
    ``python -m spacy pel``, run once. dev: by name, what is evaluated on. kb: where "prepare" puts
    the knowledge base; kbs: that of a dev set with one of its own; these are then worlds, averaged.
    settings: laid over the config after the variant's. steps: of a run; None:
    what the config says. refresh: steps between two encodings of the index of hard negatives; None:
    what the config says. source: the JSONL of the knowledge base, where a sample may stand for it,
    and train: what is trained on. alignment: arguments of ``pel`` that put an encoder into
    "{work}/aligned". label_types: the entity types that a mention's label allows.

    ``{data}`` and ``{encoder}`` stand for the folder and the encoder that the user names,
    ``{work}`` for a folder of the corpus' own, ``{source}`` for the source or its sample.
    """

    name: str
    config: str
    reranker: str | None
    prepare: tuple[tuple[str, ...], ...]
    dev: dict[str, str]
    settings: dict[str, Any] = {}
    steps: int | None = None
    rerank_steps: int | None = None
    refresh: int | None = None
    source: str = ""
    train: tuple[str, ...] = ()
    alignment: tuple[str, ...] = ()
    label_types: dict[str, list[str]] = {}
    kb: str = "{work}/kb"
    kbs: dict[str, str] = {}

    @property
    def shown(self) -> list[str]:
        """What tables are made of: each dev set, or what is averaged over worlds."""
        return list(WORLDS if self.kbs else self.dev)

    def has(self, what: str | None) -> bool:
        """Whether it has what a variant needs."""
        return what is None or bool(getattr(self, what))

    def needs(self, place: str) -> bool:
        """Whether a place, such as "data", is to be named by the user."""
        parts = [self.settings.values(), self.dev.values(), self.alignment, *self.prepare]
        parts.append([self.source])
        return any(f"{{{place}}}" in str(value) for values in parts for value in values)


def _adamw(rate: float) -> dict[str, Any]:
    """AdamW with a warm-up of a tenth of the steps, whose number comes later."""
    return {
        "@optimizers": "spacy-pel.AdamW.v1",
        "weight_decay": 0.01,
        "eps": 1e-6,
        "grad_clip": 1.0,
        "learn_rate": {
            "@schedules": "warmup_linear.v1",
            "warmup_steps": 1,
            "total_steps": 10,
            "initial_rate": rate,
        },
    }


def _alignment(dev: str, *settings: str) -> tuple[str, ...]:
    return (
        *("train", "configs/align.cfg", "--output", "{work}/aligned", "--resume"),
        *("--paths.kb", "{work}/kb", "--paths.dev", dev, *settings),
    )


# That of configs/demo.cfg.
_DEMO_ENCODER = json.dumps(
    {
        **{"@misc": "spacy-pel.ScratchEncoder.v1", "layers": 2, "width": 128, "heads": 4},
        **{"vocab_size": 6000, "max_tokens": 512},
    }
)
# Shorter inputs and batches than in configs/demo.cfg: a run takes about a minute of one core. Not
# its pooling, "both", which makes vectors of like length: the dot product, that cross-entropy is
# scored by, would be bounded as the cosine is, and no softmax of it could be sharp. "mean", as in
# the paper, learns nothing from scratch in so few steps.
DEMO = Corpus(
    "demo",
    "configs/demo.cfg",
    "configs/demo_rerank.cfg",
    (("kb", "build", "assets/demo/umls", "{work}/kb"),),
    {"demo": "assets/demo/corpus/dev.pubtator"},
    {
        ".training.optimizer": _adamw(0.001),
        ".training.batcher.size": 2,
        ".corpora.dev.limit": 1,
        "row_kind": "name",
        "model.pooling": "focus",
        "model.mention_length": 48,
        "model.entity_length": 24,
    },
    steps=200,
    rerank_steps=150,
    alignment=_alignment(
        "assets/demo/corpus/dev.pubtator",
        *("--components.proxy_linker.model.encoder", _DEMO_ENCODER),
        *("--training.max_steps", "300", "--training.eval_frequency", "300"),
        *("--training.optimizer.learn_rate.total_steps", "300"),
        *("--training.optimizer.learn_rate.warmup_steps", "30"),
        *("--training.optimizer.learn_rate.initial_rate", "0.001"),
    ),
)
# The paper's types out of the knowledge base, besides the mentions that it lacks anyway.
DEMO_OKB = DEMO._replace(
    name="demo-okb",
    reranker=None,
    alignment=(),
    prepare=(
        ("kb", "build", "assets/demo/umls", "{work}/umls"),
        ("okb", "{work}/umls", "{work}/okb", "--types", "paper", "--tolerance", "100")
        + ("--train", "assets/demo/corpus/train.pubtator")
        + ("--dev", "assets/demo/corpus/dev.pubtator"),
    ),
    dev={"demo-okb": "{work}/okb/dev.pubtator"},
    settings={
        **DEMO.settings,
        ".paths.train": "{work}/okb/train.pubtator",
        ".paths.dev": "{work}/okb/dev.pubtator",
    },
    kb="{work}/okb/kb",
)
_BUILD = (("kb", "build", "{source}", "{work}/kb"),)
_OPEN = {
    ".paths.data": "{data}",
    ".paths.encoder": "{encoder}",
    ".training.optimizer": _adamw(0.00005),
    # What is evaluated in training counts for nothing: a look at a few entities is enough.
    ".corpora.dev.limit": 1,
    ".initialize.components.proxy_linker.searched_entities": 10,
    ".training.batcher": {"@batchers": "spacy-pel.batch_by_mentions.v1", "size": 12},
    "model.mention_length": 48,
}
_NCBI_LABELS = ("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention")
MESH = Corpus(
    "mesh",
    "configs/mesh.cfg",
    "configs/mesh_rerank.cfg",
    _BUILD,
    {
        "BC5CDR": "{data}/corpora/bc5cdr/dev.pubtator.txt.gz",
        "NCBI disease": "{data}/corpora/ncbi_disease/dev.pubtator.txt.gz",
    },
    _OPEN,
    steps=600,
    rerank_steps=600,
    refresh=50,
    source="{data}/kb/mesh.jsonl.gz",
    train=(
        "{data}/corpora/bc5cdr/train.pubtator.txt.gz",
        "{data}/corpora/ncbi_disease/train.pubtator.txt.gz",
    ),
    alignment=_alignment(
        "{data}/corpora/bc5cdr/dev.pubtator.txt.gz", "--paths.encoder", "{encoder}"
    ),
    label_types={
        "Chemical": ["Chemical or Drug", ""],
        **{
            label: ["Disease", "Psychiatry and Psychology", ""]
            for label in ("Disease", *_NCBI_LABELS)
        },
    },
)
MEDMENTIONS = Corpus(
    "medmentions",
    "configs/medmentions.cfg",
    "configs/medmentions_rerank.cfg",
    _BUILD,
    {"MedMentions": "{data}/corpora/medmentions/dev.pubtator.txt.gz"},
    _OPEN,
    steps=600,
    rerank_steps=600,
    refresh=50,
    source="{data}/kb/medmentions_open.jsonl.gz",
    train=("{data}/corpora/medmentions/train.pubtator.txt.gz",),
    alignment=_alignment(
        "{data}/corpora/medmentions/dev.pubtator.txt.gz", "--paths.encoder", "{encoder}"
    ),
)
# The paper's own: its configs hold all of table 6, so nothing is laid over them.
UMLS = Corpus(
    "umls",
    "configs/paper.cfg",
    "configs/paper_rerank.cfg",
    (("kb", "build", "{data}/umls/2017AA/META", "{work}/kb", "--preset", "st21pv"),),
    {"MedMentions": "{data}/MedMentions/st21pv:dev"},
    {".paths.data": "{data}", ".paths.encoder": "{encoder}"},
    alignment=_alignment(
        "{data}/MedMentions/st21pv",
        *("--corpora.dev.@readers", "spacy-pel.MedMentionsCorpus.v1", "--corpora.dev.split", "dev"),
        *("--paths.encoder", "{encoder}"),
    ),
)
UMLS_OKB = UMLS._replace(
    name="umls-okb",
    reranker=None,
    alignment=(),
    prepare=(
        ("kb", "build", "{data}/umls/2017AA/META", "{work}/umls", "--preset", "st21pv"),
        ("okb", "{work}/umls", "{work}/okb", "--types", "paper")
        + ("--train", "{data}/MedMentions/st21pv:train", "--dev", "{data}/MedMentions/st21pv:dev"),
    ),
    dev={"MedMentions": "{work}/okb/dev.pubtator"},
    settings={
        ".paths.encoder": "{encoder}",
        ".paths.train": "{work}/okb/train.pubtator",
        ".paths.dev": "{work}/okb/dev.pubtator",
        ".corpora.train": {"@readers": "spacy-pel.PubTatorCorpus.v1", "path": "${paths.train}"},
        ".corpora.dev": {"@readers": "spacy-pel.PubTatorCorpus.v1", "path": "${paths.dev}"},
    },
    kb="{work}/okb/kb",
)
_TRAIN_WORLDS = (
    *("american_football", "doctor_who", "fallout", "final_fantasy", "military"),
    *("pro_wrestling", "starwars", "world_of_warcraft"),
)
_VAL_WORLDS = ("coronation_street", "elder_scrolls", "ice_hockey", "muppets")
ZESHEL = Corpus(
    "zeshel",
    "configs/paper_zeshel.cfg",
    "configs/paper_zeshel_rerank.cfg",
    (
        ("kb", "build", *(f"{{data}}/zeshel/documents/{world}.json" for world in _TRAIN_WORLDS))
        + ("{work}/kb",),
        *(
            ("kb", "build", f"{{data}}/zeshel/documents/{world}.json", f"{{work}}/{world}")
            for world in _VAL_WORLDS
        ),
    ),
    {world: f"{{data}}/zeshel:val:{world}" for world in _VAL_WORLDS},
    {".paths.data": "{data}"},
    kbs={world: f"{{work}}/{world}" for world in _VAL_WORLDS},
)


class Profile(NamedTuple):
    """The corpora of the experiments in linking, and of those in telling NIL."""

    linking: tuple[Corpus, ...]
    nil: tuple[Corpus, ...]

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """All of them, each once."""
        return tuple({corpus.name: corpus for corpus in (*self.linking, *self.nil)}.values())


PROFILES = {
    "demo": Profile((DEMO,), (DEMO_OKB,)),
    "open": Profile((MESH, MEDMENTIONS), (MEDMENTIONS,)),
    "paper": Profile((UMLS, ZESHEL), (UMLS_OKB,)),
}
