"""The corpora and knowledge bases that the experiments run on, and for how long."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

# The averages that stand for a corpus in which each world has a KB of its own. The paper counts
# retrievers over all mentions (micro) and rerankers as the mean over worlds (macro).
WORLDS = {"all worlds": "micro", "mean of worlds": "macro"}


class Corpus(NamedTuple):
    """A corpus with its knowledge base.

    In the texts below, ``{data}`` and ``{encoder}`` stand for the folder and the encoder that the
    user names, ``{work}`` for a folder of the corpus' own, ``{source}`` for the source or its sample.
    In variants, ``{train}`` stands for the training files, ``{mined}`` for "{work}/mined.parquet", and
    ``{mined_and_train}`` for all of these.

    Attributes:
        name: Its name in the results.
        config: The config that the settings of a retriever are laid over.
        reranker: The config that the settings of a reranker are laid over; None for no rerankers.
        prepare: Arguments of ``python -m spacy pel``, run once.
        dev: For each dev set, by its name, the corpus that is evaluated on.
        settings: Settings laid over the config after those of the variant.
        steps: The steps of training a retriever; None for those of the config.
        rerank_steps: The steps of training a reranker; None for those of the config.
        refresh: The steps between two encodings of the index of hard negatives; None for those of
            the config.
        source: The JSONL file of the knowledge base, if a sample of it may be taken.
        train: The training files, whose entities are always in a sample.
        alignment: Arguments of ``python -m spacy pel`` that put an encoder into "{work}/aligned".
        label_types: The entity types that each label of a mention allows.
        kb: Where ``prepare`` puts the knowledge base.
        kbs: For each dev set, by its name, a knowledge base of its own. Such dev sets are worlds,
            and are averaged.
        evaluated_every: The steps between two evaluations of a training, whose figures make a curve
            over steps; None for no curve.
        is_mined: Whether it is trained on mined mentions. A limit of documents then holds for the dev
            sets alone.
        jointly: Whether mentions are also linked together, and entities proposed that are taken out of
            the knowledge base.
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
    evaluated_every: int | None = None
    is_mined: bool = False
    jointly: bool = False

    @property
    def shown(self) -> list[str]:
        """The names under which results are shown: the dev sets, or the averages over worlds."""
        return list(WORLDS if self.kbs else self.dev)

    def has(self, what: str | None) -> bool:
        """Whether it has what a variant needs; see ``Variant.needs``."""
        return what is None or bool(getattr(self, what))

    def needs(self, place: str) -> bool:
        """Whether the user must name a place, such as "data"."""
        parts = [self.settings.values(), self.dev.values(), self.alignment, *self.prepare]
        parts.append([self.source])
        return any(f"{{{place}}}" in str(value) for values in parts for value in values)


def _adamw(rate: float) -> dict[str, Any]:
    """AdamW with a warm-up of a tenth of the steps; the number of steps is set later."""
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


def _alignment(*settings: str) -> tuple[str, ...]:
    return (
        *("train", "configs/align.cfg", "--output", "{work}/aligned", "--resume"),
        *("--paths.kb", "{work}/kb", *settings),
    )


# The encoder of configs/demo.cfg.
_DEMO_ENCODER = json.dumps(
    {
        **{"@misc": "spacy-pel.ScratchEncoder.v1", "layers": 2, "width": 128, "heads": 4},
        **{"vocab_size": 6000, "max_tokens": 512},
    }
)
_PROXY_LOSS = json.dumps({"@losses": "spacy-pel.ProxyLoss.v1", "alpha": 32, "delta": 0})
# Inputs and batches are shorter than in configs/demo.cfg, so that a run takes about a minute of one
# core. The pooling is not "both" as there: it makes vectors of about one length, which bounds the dot
# product that cross-entropy scores by, and then no softmax of it can be sharp. With "mean", the
# paper's pooling, an encoder from scratch learns nothing in so few steps.
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
        *("--components.proxy_linker.model.encoder", _DEMO_ENCODER),
        *("--components.proxy_linker.loss", _PROXY_LOSS),
        *("--components.proxy_linker.name_dropout", "1.0"),
        *("--corpora.train.part", "all", "--training.batcher.size", "128"),
        *("--training.max_steps", "300", "--training.eval_frequency", "300"),
        *("--training.optimizer.learn_rate.total_steps", "300"),
        *("--training.optimizer.learn_rate.warmup_steps", "30"),
        *("--training.optimizer.learn_rate.initial_rate", "0.001"),
    ),
)
# The paper's types are taken out of the knowledge base: their mentions become NIL.
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
    # Evaluations during training are not used, so a few entities are enough for them.
    ".corpora.dev.limit": 1,
    ".initialize.components.proxy_linker.searched_entities": 10,
    # Twelve mentions in their order are of one document, and so of few entities.
    ".training.batcher": {
        "@batchers": "spacy-pel.batch_by_mentions.v1",
        "size": 12,
        "shuffle_mentions": True,
    },
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
    alignment=_alignment("--paths.encoder", "{encoder}"),
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
    alignment=_alignment("--paths.encoder", "{encoder}"),
)
# The paper's setting, as far as two cores allow: batches of 32 shuffled mentions, and the first two
# layers of an encoder for both sides, which read 32 tokens (the paper: all 12 layers of two encoders,
# and 128 tokens; with 64 here a step takes twice as long, and two layers learn less in it). The variants set rows, pooling, loss, similarity and negatives.
_CLAIM = {
    **_OPEN,
    "name_dropout": 0,
    "resolve_abbreviations": False,
    "model.shared": True,
    "model.mention_length": 32,
    "model.entity_length": 32,
    "model.encoder.layers": 2,
    ".training.batcher": {
        "@batchers": "spacy-pel.batch_by_mentions.v1",
        "size": 32,
        "shuffle_mentions": True,
    },
    # Of the curve over steps: a sample of the dev sets and of the knowledge base.
    ".corpora.dev.limit": 60,
    ".initialize.components.proxy_linker.searched_entities": 3000,
}
CLAIM_MESH = MESH._replace(
    name="claim-mesh",
    reranker=None,
    alignment=(),
    settings=_CLAIM,
    steps=2000,
    refresh=200,
    evaluated_every=200,
)
CLAIM_MEDMENTIONS = MEDMENTIONS._replace(
    name="claim-medmentions",
    reranker=None,
    alignment=(),
    settings=_CLAIM,
    steps=2000,
    refresh=200,
    evaluated_every=400,
)
# Training against coreferent mentions encodes seven times as many mentions in a step, and all of training
# again at each refresh. So that it takes minutes: one layer, short inputs, few steps at a high rate, and
# hard entities among fewer.
_COREFERENCE = {
    **_CLAIM,
    ".training.optimizer": _adamw(0.0002),
    ".training.batcher.size": 16,
    ".corpora.dev.limit": 1,
    ".initialize.components.proxy_linker.searched_entities": 10,
    ".initialize.components.proxy_linker.mined_entities": 3000,
    "model.encoder.layers": 1,
    "model.mention_length": 24,
    "model.entity_length": 24,
}


def _coreference(corpus: Corpus) -> Corpus:
    """The corpus as linkers are trained on its coreferent mentions, in minutes."""
    return corpus._replace(
        name=f"coreference-{corpus.name}",
        alignment=(),
        settings=_COREFERENCE,
        steps=300,
        rerank_steps=300,
        jointly=True,
    )


COREFERENCE_MESH = _coreference(MESH)
COREFERENCE_MEDMENTIONS = _coreference(MEDMENTIONS)


def _self_supervised(corpus: Corpus) -> Corpus:
    """The corpus whose training mentions are mined from plain text by the names of its knowledge base.

    One layer, short inputs and small batches, so that a training takes minutes.
    """
    mined = ("mentions", "{work}/kb", "{data}/text/sentences.txt.gz")
    return corpus._replace(
        name=f"krissbert-{corpus.name}",
        config="configs/self_supervised.cfg",
        reranker="configs/self_supervised_rerank.cfg",
        prepare=(
            *_BUILD,
            (*mined, "{work}/mined.parquet", "--aliases", "--per-entity", "8"),
            (*mined, "{work}/preferred.parquet", "--per-entity", "8"),
        ),
        alignment=(),
        settings={
            ".paths.train": "{work}/mined.parquet",
            ".paths.dev": "{work}/mined.parquet",
            ".paths.encoder": "{encoder}",
            ".training.optimizer": _adamw(0.0002),
            ".training.batcher.size": 32,
            # Evaluations during training are not used.
            ".corpora.dev.limit": 1,
            ".initialize.components.proxy_linker.searched_entities": 10,
            "model.encoder.layers": 1,
            "model.mention_length": 32,
            "model.entity_length": 24,
        },
        steps=300,
        rerank_steps=300,
        is_mined=True,
    )


KRISSBERT_MESH = _self_supervised(MESH)
KRISSBERT_MEDMENTIONS = _self_supervised(MEDMENTIONS)
# The paper's own corpora. Their configs hold all of table 6, so no settings are laid over them.
UMLS = Corpus(
    "umls",
    "configs/paper.cfg",
    "configs/paper_rerank.cfg",
    (("kb", "build", "{data}/umls/2017AA/META", "{work}/kb", "--preset", "st21pv"),),
    {"MedMentions": "{data}/MedMentions/st21pv:dev"},
    {".paths.data": "{data}", ".paths.encoder": "{encoder}"},
    alignment=_alignment("--paths.encoder", "{encoder}"),
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
