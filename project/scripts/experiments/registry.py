"""The experiments: what each trains, what its table shows, and the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .published import (
    ARBOEL_TABLE_1,
    ARBOEL_TABLE_3,
    ARBOEL_TABLE_5,
    ARBOEL_TABLE_6,
    KRISSBERT_TABLES,
    MEDMENTIONS_TABLE_2,
    NIL_TABLE_4,
    ZESHEL_TABLE_3,
)
from .variants import (
    ARMS,
    OBJECTIVES,
    ROWS,
    SELF_SUPERVISED,
    SHOTS,
    SUM_ARM,
    Variant,
    arm,
    extras,
    few_shot,
    learning,
    objective,
    reranker,
    rerankers_of_objectives,
    retriever,
    self_supervised,
    untrained,
    untrained_arm,
    untrained_objective,
    untrained_self_supervised,
)

WHOLE = self_supervised("whole method")
SHIPPED = self_supervised("with hard negatives, without pairs and masking")
# Prototypes, and lazy learning from documents of each training file.
AS_ROWS = [
    learning(WHOLE, "mined mentions", "{mined}"),
    *(learning(WHOLE, f"gold mentions of {n} documents", "{train}", n) for n in SHOTS),
    learning(WHOLE, "all gold mentions", "{train}"),
]
# The few-shot curves (figure 2): the variants by the share of the training documents, in %.
SHARES = (0, 1, 5, 25, 100)
FEW_SHOT = {
    "as rows": [WHOLE, *AS_ROWS[1:]],
    "as training": [
        untrained_self_supervised(),
        *map(few_shot, SHOTS),
        self_supervised("gold mentions alone"),
    ],
}
BEST = retriever("Pb", "mixed", 32)
# Step 0 of the retrievers: the encoder as it comes.
STEP_0 = untrained("cosine")
STEPS_0 = [STEP_0, untrained("dot")]
MARGINS = [retriever("Pb", "mixed", 32, delta=delta) for delta in (0, 0.01, 0.05, 0.1)]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        label: Its title.
        path: The keys that lead to its figure in a result.
        scale: What the figure is multiplied by.
        decimals: The number of decimals shown.
    """

    label: str
    path: tuple[str, ...]
    scale: float = 100.0
    decimals: int = 1


class Experiment(NamedTuple):
    """Variants that are trained with each seed, and the table of them.

    Attributes:
        title: Its title on the page.
        question: What the table answers.
        variants: The variants.
        columns: The columns of the table.
        paper: The paper's figures by their heading, then by variant, in the order of the columns;
            there may be fewer than columns.
        corpora: Which corpora of the profile it runs on: "linking", "nil", "claim", "coreference" or
            "self_supervision".
        of_training: Whether the table is about training, and so is the same for all dev sets.
        intervals: Whether cells have 95 % confidence intervals in place of standard deviations.
    """

    title: str
    question: str
    variants: Sequence[Variant]
    columns: Sequence[Column]
    paper: Mapping[str, Mapping[str, tuple[float, ...]]] = {}
    corpora: str = "linking"
    of_training: bool = False
    intervals: bool = False


RECALL = [Column(f"recall@{k}", (f"recall@{k}", "in_kb")) for k in (1, 5, 16, 64)]
# Recall for entities that are gold in training (seen) and for those that are not (zero-shot).
SEEN = [Column(f"{which}, @1", ("recall@1", which)) for which in ("seen", "unseen")]
SEEN_64 = [Column(f"{which}, @64", ("recall@64", which)) for which in ("seen", "unseen")]
# Of mentions that are a name of several entities.
AMBIGUOUS = Column("ambiguous, @1", ("surface_forms", "strict_ambiguous"))
# Of a step: time, and inputs that an encoder reads. Those of the index are of its share in a step.
STEP_COST = [
    Column("s a step", ("training", "seconds_per_step"), 1, 2),
    Column("mentions", ("training", "passes_per_step", "mentions"), 1, 0),
    Column("entities", ("training", "passes_per_step", "proxies"), 1, 0),
    Column("index", ("training", "passes_per_step", "index"), 1, 0),
]
NIL = [
    Column("auPR", ("nil", "average_precision")),
    Column("precision", ("nil", "precision")),
    Column("recall", ("nil", "recall")),
    Column("recall@1", ("nil", "recall@1")),
    Column("recall@64", ("nil", "recall@64")),
    Column("F1", ("nil", "f1")),
    Column("recall@64, NIL as a candidate", ("nil", "recall@64_nil_as_candidate")),
]
COST = [
    Column("s an epoch", ("training", "seconds_per_epoch"), 1, 0),
    Column("mentions", ("training", "passes_per_epoch", "mentions"), 1, 0),
    Column("proxies", ("training", "passes_per_epoch", "proxies"), 1, 0),
    Column("index", ("training", "passes_per_epoch", "index"), 1, 0),
    Column("peak memory, MB", ("training", "memory_mb"), 1, 0),
]
NORMS = [
    Column("mean norm", ("training", "gradient_norm", "mean"), 1, 2),
    Column("variance", ("training", "gradient_norm", "variance"), 1, 2),
    Column("variance, loss / alpha", ("training", "gradient_norm", "variance_over_alpha"), 1, 3),
    Column("variance / mean²", ("training", "gradient_norm", "relative_variance"), 1, 3),
]
# The recall of mentions that are linked together: by the best way, then by each.
JOINTLY = [
    *(
        Column(label, ("jointly", "recall@1", "best", kind))
        for label, kind in (("best", "in_kb"), ("best, seen", "seen"), ("best, unseen", "unseen"))
    ),
    *(
        Column(way, ("jointly", "recall@1", way, "in_kb"))
        for way in ("one by one", "undirected", "directed")
    ),
]
# Recall@1 after reranking candidates that always hold the right entity.
ORACLE = [Column(f"oracle, {which}", ("oracle", which)) for which in ("self", "union")]
CLUSTERS = [
    Column("ARI, all", ("jointly", "ari", "all"), 1, 2),
    Column("all / unseen", ("jointly", "ari", "all_unseen"), 1, 2),
    Column("unseen alone", ("jointly", "ari", "unseen"), 1, 2),
    Column("coreference recall@64", ("jointly", "coreference_recall@64")),
    Column("ARI, a tenth lacking", ("discovery", "ari_all"), 1, 2),
    Column("ARI, lacking", ("discovery", "ari_lacking"), 1, 2),
    Column("precision of proposals", ("discovery", "precision")),
    Column("proposals", ("discovery", "proposals"), 1, 0),
]


def _arms(rows: str) -> list[Variant]:
    """The arms of the comparison of losses, each after its step 0."""
    return [
        *(untrained_arm(similarity, rows) for similarity in ("cosine", "dot")),
        *(arm(name, rows) for name in ARMS),
    ]


EXPERIMENTS = {
    "retrieval": Experiment(
        "Candidate retrieval (tables 2 and 3)",
        "Which loss, which negatives and how many of them find entities best, and does FGSM help? "
        "Recall is over the mentions whose entity is in the KB.",
        STEPS_0
        + [
            retriever(loss, negatives, n, fgsm)
            for n, fgsm in ((32, False), (32, True), (64, False), (64, True))
            for negatives in ("random", "mixed")
            for loss in ("CE", "Pb")
        ],
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        {"MedMentions": MEDMENTIONS_TABLE_2, "ZESHEL": ZESHEL_TABLE_3},
    ),
    "nil": Experiment(
        "Mentions whose entity the KB lacks (table 4, figure 2)",
        "How well does the best score tell NIL? Precision, recall and F1 of NIL are at the threshold "
        "tuned on the other half of the dev documents. recall@k is over all mentions, with NIL as one more class: a mention "
        "that is called NIL and is not is a miss, as in the paper. The last column counts NIL as one "
        "more candidate before the others, so that such a mention's entity is still found.",
        [*STEPS_0, *MARGINS, retriever("CE", "mixed", 32)],
        NIL,
        {"MedMentions": NIL_TABLE_4},
        corpora="nil",
    ),
    "reranking": Experiment(
        "Reranking (table 5)",
        "What does a cross-encoder over the best candidates (16; demo and open: 8) add, with and "
        "without FGSM? On the demo and open corpora the retriever's score is added to its score, "
        "with a weight fitted on the other half of the dev documents. On the open corpora it does not read mentions "
        "that the retriever is sure of.",
        [STEP_0, BEST, reranker(BEST), reranker(BEST, fgsm=True)],
        [*RECALL, Column("mentions/s", ("mentions_per_second",), 1, 0)],
        {
            "MedMentions": {
                f"{BEST.name} + reranker": (74.0,),
                f"{BEST.name} + reranker, FGSM": (74.6,),
            },
            "ZESHEL": {
                f"{BEST.name} + reranker": (62.8,),
                f"{BEST.name} + reranker, FGSM": (64.6,),
            },
        },
    ),
    "gradient-norms": Experiment(
        "Gradient norms over training steps (figure 3)",
        "How steady are the gradients? Norms are taken before clipping, after the warm-up. Those of "
        "Pb grow with alpha, which clipping and AdamW undo. So the variance is also given for the "
        "loss divided by alpha (1 for CE), and relative to the mean.",
        [retriever(loss, kind) for kind in ("random", "mixed") for loss in ("CE", "Pb")],
        NORMS,
        of_training=True,
    ),
    "cost": Experiment(
        "What negatives and FGSM cost",
        "Time and encoded inputs per epoch. Time is that of steps, without evaluations. FGSM encodes "
        "each proxy twice. Hard negatives are searched in the index.",
        [retriever("Pb", kind, 32, fgsm) for fgsm in (False, True) for kind in ("random", "mixed")],
        COST,
        of_training=True,
    ),
    "alpha": Experiment(
        "Ablation of alpha",
        "How strongly should proxies pull and push mentions?",
        [STEP_0, *(retriever("Pb", "mixed", alpha=alpha) for alpha in (8, 16, 32, 64))],
        RECALL,
    ),
    "delta": Experiment(
        "Ablation of the margin delta",
        "What does a margin cost if the KB has every entity?",
        [STEP_0, *MARGINS],
        RECALL,
    ),
    "extras": Experiment(
        "Beyond the paper",
        "What is gained by each of four additions: reading an acronym as the long form that its "
        "document defines; a bonus for exact names (fitted on the other half of the documents); "
        "searching only "
        "entities of the types that a mention's label allows; aligning the names of the KB before "
        "training?",
        [STEP_0, BEST, *extras(BEST)],
        RECALL,
    ),
    "claim": Experiment(
        "The claim in the paper's setting",
        "Is it the loss or the similarity that finds entities? A row of the index stands for an "
        "entity: its names, types and definition. Negatives are random, and a batch shares them. "
        "Recall is of a search in all of the knowledge base.",
        _arms("entities as rows"),
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        corpora="claim",
        intervals=True,
    ),
    "claim-names": Experiment(
        "The claim with names as rows",
        "The same, with a row of the index for each name of an entity.",
        _arms("names as rows"),
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        corpora="claim",
        intervals=True,
    ),
    "claim-focus": Experiment(
        "The claim with names as rows, their tokens alone",
        "The same, with vectors made of the tokens of the mention or the name alone, as in the other "
        "experiments on these data.",
        _arms("names as rows, their tokens alone"),
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        corpora="claim",
        intervals=True,
    ),
    "claim-in-batch": Experiment(
        "The claim with negatives that other mentions have as positives",
        "Random negatives of a large knowledge base are hardly ever the entity of a mention, so that an "
        "encoder may learn which entities occur at all. Here the entities of a batch's other "
        "mentions are negatives as well.",
        [arm(name, "entities as rows", "in-batch") for name in (*ARMS, SUM_ARM)],
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        corpora="claim",
        intervals=True,
    ),
    "claim-negatives": Experiment(
        "The claim with other negatives",
        "The same as the first, with 64 random negatives, with 32 that each mention has for itself, "
        "with hard ones, and with FGSM for each proxy of a batch or each pair (Eq. 6 and 7).",
        [
            arm(name, "entities as rows", negatives, n, fgsm)
            for negatives, n, fgsm in (
                ("random", 64, None),
                ("own", 32, None),
                ("mixed", 32, None),
                ("random", 32, "batch"),
                ("random", 32, "pair"),
            )
            for name in ARMS
        ],
        [RECALL[0], RECALL[3], *RECALL[1:3], *SEEN],
        corpora="claim",
        intervals=True,
    ),
    "claim-sum": Experiment(
        "The sum of both losses",
        "Does the sum of the proxy-based loss and the softmax over scaled cosines find as many entities "
        "as the softmax, and tell NIL as well as the proxies?",
        [*_arms("entities as rows"), arm(SUM_ARM, "entities as rows")],
        [RECALL[0], RECALL[3], *NIL],
        corpora="claim",
        intervals=True,
    ),
    "claim-nil": Experiment(
        "The claim for NIL",
        "How well does the best score of each arm tell NIL? The threshold is "
        "tuned on the other half of the dev documents.",
        [variant for rows in ROWS for variant in _arms(rows)],
        NIL,
        corpora="claim",
        intervals=True,
    ),
    "arborescence": Experiment(
        "Mentions that are trained against mentions (ArboEL, table 1)",
        "Does a mention find its entity better if training has drawn it to other mentions of the entity? "
        "The positive of a mention is what the pruned arborescence of its gold cluster reaches it from: "
        "among all mentions of the cluster, the nearest one (1-NN) or a random one (1-Rand). Vectors "
        "are cosines times 32, and each mention is linked by itself.",
        [untrained_objective(), *map(objective, OBJECTIVES)],
        [RECALL[0], RECALL[3], *SEEN, *SEEN_64, *STEP_COST],
        {"MedMentions": ARBOEL_TABLE_1},
        corpora="coreference",
    ),
    "krissbert": Experiment(
        "Training without annotations (KRISSBERT, tables 2, 5 and 7, figure 2)",
        "What is each part of self-supervision worth? Mentions are names of the knowledge base that were "
        "found in plain text; rows are names. References are these names in training, each with types. "
        "Gold mentions train only where the name of the variant says so. The paper's figures are of test "
        "sets, with UMLS and with mentions as rows.",
        [
            untrained_self_supervised(),
            *map(self_supervised, SELF_SUPERVISED),
            reranker(WHOLE),
            *map(few_shot, SHOTS),
            *AS_ROWS,
        ],
        [RECALL[0], AMBIGUOUS, *RECALL[1:]],
        KRISSBERT_TABLES,
        corpora="self_supervision",
    ),
    "arborescence-jointly": Experiment(
        "Mentions that are linked together (ArboEL, table 6)",
        "Does it help to link the mentions of all documents together? Settings were fitted on the other "
        'half of the documents. "Best" is the way that was best there. Recall is over the mentions whose '
        "entity is in the KB.",
        [untrained_objective(), *map(objective, OBJECTIVES)],
        JOINTLY,
        {"MedMentions": ARBOEL_TABLE_6},
        corpora="coreference",
    ),
    "arborescence-clusters": Experiment(
        "Clusters of mentions, and entities that the KB lacks (ArboEL, table 5 and figure 3)",
        "Are mentions near to each other that mean the same? ARI is the adjusted Rand index of clusters "
        "made of mentions alone with the gold entities: of all mentions, of those of unseen entities among "
        "all, and of these alone. Coreference recall counts the mentions that mean the same among the "
        "64 nearest ones. The last columns are of a KB without a tenth of the entities: how what is "
        "proposed agrees with the entities that it lacks.",
        [untrained_objective(), *map(objective, OBJECTIVES)],
        CLUSTERS,
        {"MedMentions": ARBOEL_TABLE_5},
        corpora="coreference",
    ),
    "arborescence-reranking": Experiment(
        "Reranking what they find (ArboEL, tables 3 and 4)",
        'Are better candidates worth more once they are reranked? "Self": the right entity is put among '
        'the candidates where the retriever missed it. "Union": so are the candidates of all retrievers '
        "of this table, which makes the choice as hard for each reranker.",
        rerankers_of_objectives(),
        [RECALL[0], *SEEN, *ORACLE],
        {"MedMentions": ARBOEL_TABLE_3},
        corpora="coreference",
    ),
}
