"""The directions of the paper's figures, and whether they hold in the results."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from spacy_pel.evaluation.spread import Spread, spread, spread_text

from .registry import BEST
from .results import Results, figure
from .variants import reranker, retriever

AT_1 = ("recall@1", "in_kb")
AUPR = ("nil", "average_precision")
VARIANCE = ("training", "gradient_norm", "variance")
OVER_ALPHA = ("training", "gradient_norm", "variance_over_alpha")
RELATIVE = ("training", "gradient_norm", "relative_variance")


class Direction(NamedTuple):
    """A claim of the paper, as a weighted sum of figures that should be above 0.

    Attributes:
        experiment: The experiment that it belongs to.
        claim: The claim in words.
        paper: The paper's own difference, as text.
        terms: The sum, as weights and names of variants.
        path: The keys that lead to the figure of each variant.
        scale: What the sum is multiplied by when it is shown.
        decimals: The number of decimals shown.
    """

    experiment: str
    claim: str
    paper: str
    terms: tuple[tuple[float, str], ...]
    path: tuple[str, ...] = AT_1
    scale: float = 100.0
    decimals: int = 1


class Finding(NamedTuple):
    """A direction in the results.

    Attributes:
        direction: The direction.
        difference: The sum, taken within each seed, over the seeds; None if there is none.
    """

    direction: Direction
    difference: Spread | None

    @property
    def verdict(self) -> str:
        """Whether it held, and whether the difference is smaller than the spread over seeds."""
        if self.difference is None:
            return "not run"
        mean, deviation, runs = self.difference
        verdict = "held" if mean > 0 else "not held"
        if runs == 1:
            return f"{verdict} (one seed)"
        return verdict + " (within the spread)" * (abs(mean) < deviation)

    @property
    def figure(self) -> str:
        return spread_text(self.difference, self.direction.decimals, self.direction.scale)


def findings(
    results: Results, corpus: str, dev: str, experiments: Collection[str]
) -> list[Finding]:
    """Check the directions of these experiments on a dev set."""
    return [
        Finding(direction, _difference(results, corpus, dev, direction))
        for direction in DIRECTIONS
        if direction.experiment in experiments
    ]


def _difference(results: Results, corpus: str, dev: str, direction: Direction) -> Spread | None:
    """The sum of the terms over the seeds for which all of them were run."""
    runs = [(weight, results.by_seed(corpus, name)) for weight, name in direction.terms]
    seeds = set.intersection(*(set(by_seed) for _, by_seed in runs))
    sums = []
    for seed in sorted(seeds):
        figures = [(w, figure(by_seed[seed], dev, direction.path)) for w, by_seed in runs]
        if all(value is not None for _, value in figures):
            sums.append(sum(weight * value for weight, value in figures))
    return spread(sums)


def _above(upper: str, lower: str) -> tuple[tuple[float, str], ...]:
    return ((1, upper), (-1, lower))


def _name(loss: str, negatives: str, n: int = 32, fgsm: bool = False, delta: float = 0) -> str:
    return retriever(loss, negatives, n, fgsm, delta=delta).name


def _of_random_negatives() -> Iterator[Direction]:
    for n, paper in ((32, "+4.8 (ZESHEL)"), (64, "+7.6 (MedMentions)")):
        yield Direction(
            "retrieval",
            f"Pb is above CE at {n} random negatives, recall@1",
            paper,
            _above(_name("Pb", "random", n), _name("CE", "random", n)),
        )
    for which in ("seen", "unseen"):
        yield Direction(
            "retrieval",
            f"Pb is above CE at 32 random negatives, recall@1 of {which} entities",
            "-",
            _above(_name("Pb", "random"), _name("CE", "random")),
            ("recall@1", which),
        )


def _of_mixed_negatives() -> Iterator[Direction]:
    for n, paper in ((32, "+4.2 (ZESHEL)"), (64, "+7.1 (MedMentions)")):
        yield Direction(
            "retrieval",
            f"CE gains more than Pb from mixed negatives ({n}), recall@1",
            paper,
            _above(_name("CE", "mixed", n), _name("CE", "random", n))
            + _above(_name("Pb", "random", n), _name("Pb", "mixed", n)),
        )


def _of_fgsm() -> Iterator[Direction]:
    paper = {
        ("Pb", "random"): "+0.8 (ZESHEL)",
        ("CE", "random"): "0.0 (ZESHEL)",
        ("Pb", "mixed"): "+0.8 (MedMentions), +1.1 (ZESHEL)",
        ("CE", "mixed"): "+0.2 (MedMentions), +0.7 (ZESHEL)",
    }
    for (loss, kind), difference in paper.items():
        yield Direction(
            "retrieval",
            f"FGSM adds to {loss} with {kind} negatives, recall@1",
            difference,
            _above(_name(loss, kind, fgsm=True), _name(loss, kind)),
        )


def _of_nil() -> Iterator[Direction]:
    yield Direction(
        "nil",
        "Pb tells NIL far better than CE, auPR",
        "+51.4",
        _above(_name("Pb", "mixed"), _name("CE", "mixed")),
        AUPR,
    )
    margins = (0, 0.01, 0.05, 0.1)
    for low, high, rise in zip(margins, margins[1:], ("+0.7", "+1.4", "+1.8")):
        yield Direction(
            "nil",
            f"auPR of NIL rises with the margin, from {low:g} to {high:g}",
            rise,
            _above(_name("Pb", "mixed", delta=high), _name("Pb", "mixed", delta=low)),
            AUPR,
        )


def _of_gradient_norms() -> Iterator[Direction]:
    measures = {"variance": VARIANCE, "variance, loss / alpha": OVER_ALPHA}
    for label, path in {**measures, "variance / mean²": RELATIVE}.items():
        for kind in ("random", "mixed"):
            yield Direction(
                "gradient-norms",
                f"The norm of Pb's gradients has the lower {label}, {kind} negatives",
                "figure 3",
                _above(_name("CE", kind), _name("Pb", kind)),
                path,
                scale=1.0,
                decimals=3,
            )


def _of_reranking() -> Iterator[Direction]:
    plain, adversarial = reranker(BEST).name, reranker(BEST, fgsm=True).name
    yield Direction(
        "reranking",
        "The reranker adds to the retriever, recall@1",
        "+2.4 (MedMentions), +9.7 (ZESHEL)",
        _above(plain, BEST.name),
    )
    yield Direction(
        "reranking",
        "FGSM adds to the reranker, recall@1",
        "+0.6 (MedMentions), +1.8 (ZESHEL)",
        _above(adversarial, plain),
    )


DIRECTIONS = [
    *_of_random_negatives(),
    *_of_mixed_negatives(),
    *_of_fgsm(),
    *_of_nil(),
    *_of_gradient_norms(),
    *_of_reranking(),
]
