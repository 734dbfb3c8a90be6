"""What is trained: the paper's choices, as settings that are laid over the config of a corpus."""

from __future__ import annotations

from typing import Any, NamedTuple

PB = {"@losses": "spacy-pel.ProxyLoss.v1", "alpha": 32, "delta": 0}
CE = {"@losses": "spacy-pel.CrossEntropyLoss.v1"}
LOSSES = {"Pb": (PB, "cosine"), "CE": (CE, "dot")}
# The paper changes the loss and the similarity together. The third arm, which it does not have, tells
# the two apart: the cosine of the first with the softmax of the second.
ARMS = {
    "Pb, cosine": (PB, "cosine"),
    "CE, dot product": (CE, "dot"),
    "CE, cosine times 32": ({**CE, "scale": 32}, "cosine"),
}
# Both at once, the softmax for recall and the proxies for NIL.
SUM = {"@losses": "spacy-pel.SumLoss.v1", "*": {"pb": PB, "ce": {**CE, "scale": 32}}}
SUM_ARM = "Pb + CE times 32, cosine"
# What a row of the index stands for, and which tokens make a vector: the paper's, whose entity is one
# row; the same with names as rows; and the setting of the other experiments.
ROWS = {
    "entities as rows": {"row_kind": "entity", "model.pooling": "mean"},
    "names as rows": {"row_kind": "name", "model.pooling": "mean"},
    "names as rows, their tokens alone": {"row_kind": "name", "model.pooling": "focus"},
}
# What coreferent mentions are worth (ArboEL, table 1): the loss, how entities are negatives, and among
# which mentions of the gold cluster positives are; None: positives are entities. 10 negatives, of which
# half are mentions where positives may be.
EQUATION_6 = {"@losses": "spacy-pel.PositiveNegativeLoss.v1", "scale": 32}
OBJECTIVES = {
    "in-batch negatives": ({**CE, "scale": 32}, "in-batch", None),
    "k-NN negatives": (EQUATION_6, "hard", None),
    "arborescence": (EQUATION_6, "hard", "all"),
    "1-NN arborescence": (EQUATION_6, "hard", "nearest"),
    "1-Rand arborescence": (EQUATION_6, "hard", "random"),
    "Pb, in-batch negatives": (PB, "in-batch", None),
    "Pb, k-NN negatives": (PB, "hard", None),
    "Pb, arborescence": (PB, "hard", "all"),
}
# Those of them that draw mentions to mentions, by the mentions of the gold cluster that are joined.
ARBORESCENCES = {
    "all": "arborescence",
    "1-NN": "1-NN arborescence",
    "1-Rand": "1-Rand arborescence",
}
# What the objectives have in common: an entity is a row, and vectors are made of the tokens of names alone.
COREFERENCE = {
    "model.similarity": "cosine",
    "model.pooling": "focus",
    "row_kind": "entity",
    "regularizer": None,
    "resolve_abbreviations": False,
}
# What each part of self-supervision is worth (KRISSBERT, table 7), as settings that are laid over the
# paper's: mined mentions are drawn to names (the paper: references) and to each other.
_VIEWS = {"@misc": "spacy-pel.MaskAndReplace.v1", "mask": 0.2, "replace": 0.2}
_PAPERS_WAY = {
    "pair_loss": {"@losses": "spacy-pel.MentionPairLoss.v1", "scale": 32, "weight": 1.0},
    "views": _VIEWS,
    "negatives": {"@misc": "spacy-pel.RandomNegatives.v1", "n": 16, "in_batch": True},
}
_HARD = {"@misc": "spacy-pel.MixedNegatives.v1", "n": 8, "p": 0.5, "in_batch": True}
_NO_PAIRS = {"pair_loss": None, "views": None}
SELF_SUPERVISED = {
    "whole method": {},
    "without mention pairs": {"pair_loss": None},
    "without references": {"loss": None},
    "without masking": {"views": {**_VIEWS, "mask": 0.0}},
    "without replacement": {"views": {**_VIEWS, "replace": 0.0}},
    "with hard negatives": {"negatives": _HARD},
    # What configs/self_supervised.cfg has.
    "with hard negatives, without pairs and masking": {
        "negatives": _HARD,
        "pair_loss": None,
        "views": {**_VIEWS, "mask": 0.0, "replace": 0.4},
    },
    "without aliases": {".corpora.train.path": "{work}/preferred.parquet"},
    "Pb for references": {"loss": PB},
    "gold and mined mentions": {".corpora.train.path": "{mined_and_train}"},
    "gold mentions alone": {".corpora.train.path": "{train}"},
    # SapBERT's recipe: aliases without a context are drawn to names of their entity.
    "names alone": {
        ".corpora.train": {"@readers": "spacy-pel.NameCorpus.v1", "kb": "{work}/kb", "limit": 0},
        **_NO_PAIRS,
    },
    # BLINK's recipe: an entity is a row of its name, types and definition, with an encoder of its own.
    "descriptions alone": {"row_kind": "title", "model.shared": False, **_NO_PAIRS},
}
# The training documents of each corpus file from which a few-shot curve is trained (figure 2): about 1, 5
# and 25 % of those of BC5CDR and NCBI disease.
SHOTS = (5, 25, 125)
SIMILARITIES = {"cosine": "cosine", "dot": "dot product"}
FGSM = {"@misc": "spacy-pel.FGSM.v1", "epsilon": 0.01, "weight": 1.0}


class Variant(NamedTuple):
    """One way to train.

    Attributes:
        name: Its unique name. A name stands for the same settings everywhere, and is trained once.
        settings: Settings by their dotted names, which are below ``components.proxy_linker`` unless
            they begin with a dot.
        retriever: For a reranker the variant whose candidates it reranks; see also ``learnt``.
        names: Whether a bonus for exact names is fitted.
        needs: What the corpus must have for it: "reranker", "alignment", "label_types" or None.
        trained: Whether it is trained. If not, its encoder is used as it comes: step 0.
        learnt: The files whose mentions become rows of the knowledge base of ``retriever``, which is
            then evaluated again, and the number of documents of each file; 0: all.
        rivals: For a reranker the retrievers whose candidates it also tells apart, all together.
    """

    name: str
    settings: dict[str, Any]
    retriever: Variant | None = None
    names: bool = False
    needs: str | None = None
    trained: bool = True
    learnt: tuple[str, int] | None = None
    rivals: tuple[Variant, ...] = ()


def retriever(
    loss: str,
    negatives: str,
    n: int = 32,
    fgsm: bool = False,
    *,
    alpha: float = 32,
    delta: float = 0,
) -> Variant:
    """Make the variant of a retriever (PEL, sections 4 and 5).

    Args:
        loss: "Pb", the proxy-based loss with the cosine, or "CE", cross-entropy with the dot
            product.
        negatives: "random", drawn for a batch and shared by its mentions; or "mixed", half of which
            are hard.
        n: The number of negatives.
        fgsm: Whether FGSM is used.
        alpha: The alpha of "Pb".
        delta: The margin of "Pb".
    """
    function, similarity = LOSSES[loss]
    name = f"{loss}, {negatives} {n}"
    if loss == "Pb":
        function = {**function, "alpha": alpha, "delta": delta}
        name += f", alpha {alpha:g}" * (alpha != 32) + f", margin {delta:g}" * (delta != 0)
    return Variant(
        name + ", FGSM" * fgsm,
        {
            "loss": function,
            "model.similarity": similarity,
            "regularizer": FGSM if fgsm else None,
            "resolve_abbreviations": False,  # as in the paper
            **_negatives(negatives, n),
        },
    )


def untrained(similarity: str) -> Variant:
    """Make the variant of an encoder as it comes, which shows what training adds or destroys.

    Args:
        similarity: "cosine" or "dot".
    """
    name = f"untrained, {SIMILARITIES[similarity]}"
    settings = {
        "model.similarity": similarity,
        "regularizer": None,
        "resolve_abbreviations": False,
        **_negatives("random", 32),
    }
    return Variant(name, settings, trained=False)


def arm(
    name: str, rows: str, negatives: str = "random", n: int = 32, fgsm: str | None = None
) -> Variant:
    """Make the variant of an arm of the comparison of losses, on the settings of its corpus.

    Args:
        name: The name of the arm, one of ``ARMS``, or ``SUM_ARM``.
        rows: One of ``ROWS``.
        negatives: "random" or "mixed", see ``retriever``; "own": random ones that are drawn for
            each mention; or "in-batch": random ones, and the entities of the other mentions.
        n: The number of negatives.
        fgsm: None: no FGSM. "batch": a proxy is perturbed once for all mentions of a batch. "pair":
            for each of its mentions (Eq. 6 and 7).
    """
    loss, similarity = (SUM, "cosine") if name == SUM_ARM else ARMS[name]
    settings = {
        "loss": loss,
        "model.similarity": similarity,
        "regularizer": {**FGSM, "per_pair": fgsm == "pair"} if fgsm else None,
        **ROWS[rows],
        **_negatives(negatives, n),
    }
    adversarial = f", FGSM by {fgsm}" if fgsm else ""
    return Variant(f"{name}; {rows}, {negatives} {n}{adversarial}", settings)


def objective(name: str, refresh: int = 100) -> Variant:
    """Make the variant of a way to train with coreferent mentions, or without.

    Args:
        name: One of ``OBJECTIVES``.
        refresh: The steps between two encodings of the indexes of entities and mentions.
    """
    loss, negatives, among = OBJECTIVES[name]
    of_entities: dict[str, Any] = {"@misc": "spacy-pel.InBatchNegatives.v1"}
    if negatives == "hard":
        n = 10 if among is None else 5
        of_entities = {"@misc": "spacy-pel.MixedNegatives.v1", "n": n, "p": 1.0, "refresh": refresh}
    edges = {"@misc": "spacy-pel.Arborescence.v1", "among": among, "negatives": 5}
    settings = {
        **COREFERENCE,
        "loss": loss,
        "coreference": among and {**edges, "refresh": refresh},
        "negatives": of_entities,
    }
    return Variant(name, settings)


def untrained_objective() -> Variant:
    """Make the variant of step 0 of ``objective``."""
    settings = {**COREFERENCE, **_negatives("random", 32)}
    return Variant("untrained, its names alone", settings, trained=False)


def self_supervised(name: str) -> Variant:
    """Make the variant of a way to train on mined mentions, one of ``SELF_SUPERVISED``."""
    return Variant(f"self-supervised: {name}", {**_PAPERS_WAY, **SELF_SUPERVISED[name]})


def few_shot(documents: int) -> Variant:
    """Make the variant that is trained on so many annotated documents of each file, and no others."""
    files = {".corpora.train.path": "{train}", ".corpora.train.limit": documents}
    settings = {**_PAPERS_WAY, **files}
    return Variant(f"self-supervised: gold mentions of {documents} documents alone", settings)


def learning(of: Variant, what: str, corpus: str, documents: int = 0) -> Variant:
    """Make the variant of a retriever whose knowledge base has learnt mentions.

    Args:
        of: The variant of the retriever.
        what: The mentions, in words.
        corpus: The files that have them, as a place: see ``Corpus``.
        documents: The number of documents of each of its files; 0: all.
    """
    name = f"{of.name}; {what} as rows"
    return Variant(name, of.settings, of, learnt=(corpus, documents))


def untrained_self_supervised() -> Variant:
    """Make the variant of step 0 of ``self_supervised``."""
    return Variant("self-supervised: untrained", _PAPERS_WAY, trained=False)


def untrained_arm(similarity: str, rows: str) -> Variant:
    """Make the variant of step 0 of the arms with a similarity; see ``arm``."""
    base = untrained(similarity)
    return base._replace(name=f"{base.name}; {rows}", settings={**base.settings, **ROWS[rows]})


def reranker(of: Variant, fgsm: bool = False, rivals: tuple[Variant, ...] = ()) -> Variant:
    """Make the variant of a cross-encoder over a retriever's best candidates (PEL, appendix B)."""
    name = f"{of.name} + reranker" + ", FGSM" * fgsm
    settings = {"regularizer": FGSM if fgsm else None, "resolve_abbreviations": False}
    return Variant(name, settings, of, needs="reranker", rivals=rivals)


def rerankers_of_objectives() -> list[Variant]:
    """Make the variants of rerankers over the retrievers of ArboEL's tables 3 and 4."""
    retrievers = tuple(objective(name) for name in OBJECTIVES if not name.startswith("Pb"))
    return [reranker(each, rivals=retrievers) for each in retrievers]


def extras(of: Variant) -> list[Variant]:
    """Make the variants that the paper does not have, each with one addition."""

    def with_settings(name: str, needs: str | None = None, **settings: Any) -> Variant:
        settings = {**of.settings, **settings}
        return of._replace(name=f"{of.name}, {name}", settings=settings, needs=needs)

    aligned = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": "{work}/aligned/model-last"}
    return [
        with_settings("acronyms read in full", resolve_abbreviations=True),
        of._replace(name=f"{of.name}, exact names weighed", names=True),
        with_settings("types limited by labels", "label_types", label_types="{label_types}"),
        with_settings("names aligned first", "alignment", **{"model.encoder": aligned}),
    ]


def _negatives(kind: str, n: int) -> dict[str, Any]:
    if kind == "own":
        sampler = {"@misc": "spacy-pel.RandomNegatives.v1", "n": n, "in_batch": False}
        return {"negatives": {**sampler, "shared": False}}
    if kind == "in-batch":
        sampler = {"@misc": "spacy-pel.RandomNegatives.v1", "n": n, "in_batch": True}
        return {"negatives": sampler}
    if kind == "random":
        sampler = {"@misc": "spacy-pel.RandomNegatives.v1", "n": n, "in_batch": False}
        return {"negatives": sampler}
    # Its "refresh" is that of the corpus or its config.
    return {"negatives.n": n, "negatives.p": 0.5, "negatives.in_batch": False}
