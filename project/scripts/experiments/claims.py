"""The paper's claims, and whether the results bear them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from papers.confidence_interval import confidence_interval
from papers.spread import Spread, spread

from .registry import BEST, SHIPPED, WHOLE
from .results import Results, figure
from .variants import (
    ARBORESCENCES,
    arm,
    objective,
    reranker,
    retriever,
    self_supervised,
    untrained_self_supervised,
)

AT_1 = ("recall@1", "in_kb")
AUPR = ("nil", "average_precision")
RELATIVE_VARIANCE = ("training", "gradient_norm", "relative_variance")
# Figures by which trainings against other mentions are compared: name, path, scale and decimals.
COMPARED = {
    "recall@1": (AT_1, 100.0, 1),
    "recall@64": (("recall@64", "in_kb"), 100.0, 1),
    "adjusted Rand index of unseen entities": (("jointly", "ari", "unseen"), 1.0, 2),
}

# A sum of figures, as weights and names of variants.
Terms = tuple[tuple[float, str], ...]


class Claim(NamedTuple):
    """A claim of the paper, as a difference that is above 0 if it holds.

    Attributes:
        experiment: The experiment that it belongs to.
        text: The claim in words.
        paper: The size of the paper's own effect, as text.
        cases: The settings that the claim is about, such as the number of negatives: for each, by
            its label, the difference as a weighted sum of figures. The claim's difference is their
            mean.
        path: The keys that lead to the figure of each variant.
        scale: What the difference is multiplied by when it is shown.
        decimals: The number of decimals shown.
    """

    experiment: str
    text: str
    paper: str
    cases: dict[str, Terms]
    path: tuple[str, ...] = AT_1
    scale: float = 100.0
    decimals: int = 1


class Finding(NamedTuple):
    """What the results say of a claim.

    Attributes:
        claim: The claim.
        cases: The labels of those of its cases that were run.
        difference: The mean over these cases, taken within each seed, over the seeds; None if
            nothing was run.
        noted: Whether any of the runs has a note, such as that of a fault.
    """

    claim: Claim
    cases: list[str]
    difference: Spread | None
    noted: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the difference; None for one seed or none."""
        return confidence_interval(self.difference) if self.difference else None

    @property
    def verdict(self) -> str:
        """What the interval decides: "held", "reversed" or "not decided"."""
        if self.interval is None:
            return "not decided" if self.difference else "not run"
        low, high = self.interval
        return "held" if low > 0 else "reversed" if high < 0 else "not decided"

    @property
    def summary(self) -> str:
        """The difference, its interval and the verdict in a line of text; "" if nothing was run."""
        if self.difference is None:
            return ""
        of = "" if len(self.cases) == len(self.claim.cases) else f" ({', '.join(self.cases)})"
        ends = "one seed" if self.interval is None else " to ".join(map(self._shown, self.interval))
        return (
            f"{self._shown(self.difference.mean)}{of} [{ends}]: {self.verdict}" + " *" * self.noted
        )

    def _shown(self, value: float) -> str:
        return f"{self.claim.scale * value:+,.{self.claim.decimals}f}"


def finding(results: Results, corpus: str, dev: str, claim: Claim) -> Finding:
    """Look for a claim in the results on a dev set, over the seeds that have all that was run."""
    by_case = {label: _sums(results, corpus, dev, claim, label) for label in claim.cases}
    by_case = {label: sums for label, sums in by_case.items() if sums}
    seeds = set.intersection(*map(set, by_case.values())) if by_case else set()
    means = [sum(sums[seed] for sums in by_case.values()) / len(by_case) for seed in sorted(seeds)]
    names = {name for label in by_case for _, name in claim.cases[label]}
    noted = any("note" in line for name in names for line in results.by_seed(corpus, name).values())
    return Finding(claim, list(by_case), spread(means), noted)


def _sums(results: Results, corpus: str, dev: str, claim: Claim, case: str) -> dict[int, float]:
    """The difference of a case by seed, for the seeds with which all its variants were run."""
    runs = [(weight, results.by_seed(corpus, name)) for weight, name in claim.cases[case]]
    sums = {}
    for seed in set.intersection(*(set(by_seed) for _, by_seed in runs)):
        figures = [(w, figure(by_seed[seed], dev, claim.path)) for w, by_seed in runs]
        if all(value is not None for _, value in figures):
            sums[seed] = sum(weight * value for weight, value in figures)
    return sums


def _above(upper: str, lower: str) -> Terms:
    return ((1, upper), (-1, lower))


def _name(loss: str, negatives: str, n: int = 32, fgsm: bool = False, delta: float = 0) -> str:
    return retriever(loss, negatives, n, fgsm, delta=delta).name


def _of_retrieval() -> Iterator[Claim]:
    yield Claim(
        "retrieval",
        "Pb is above CE at random negatives (32; 64), recall@1",
        "+4.8 (32, ZESHEL), +7.6 (64, MedMentions)",
        {str(n): _above(_name("Pb", "random", n), _name("CE", "random", n)) for n in (32, 64)},
    )
    yield Claim(
        "retrieval",
        "CE gains more than Pb from mixed negatives (32; 64), recall@1",
        "+4.2 (32, ZESHEL), +7.1 (64, MedMentions)",
        {
            str(n): _above(_name("CE", "mixed", n), _name("CE", "random", n))
            + _above(_name("Pb", "random", n), _name("Pb", "mixed", n))
            for n in (32, 64)
        },
    )
    paper = {
        "Pb": "+0.8 (random, ZESHEL), +0.8 and +1.1 (mixed, MedMentions and ZESHEL)",
        "CE": "0.0 (random, ZESHEL), +0.2 and +0.7 (mixed, MedMentions and ZESHEL)",
    }
    for loss, sizes in paper.items():
        yield Claim(
            "retrieval",
            f"FGSM adds to {loss} (random; mixed negatives), recall@1",
            sizes,
            {
                kind: _above(_name(loss, kind, fgsm=True), _name(loss, kind))
                for kind in ("random", "mixed")
            },
        )


def _of_nil() -> Iterator[Claim]:
    yield Claim(
        "nil",
        "Pb tells NIL better than CE, auPR",
        "+51.4 (MedMentions)",
        {"mixed": _above(_name("Pb", "mixed"), _name("CE", "mixed"))},
        AUPR,
    )
    yield Claim(
        "nil",
        "A margin of 0.1 helps to tell NIL, auPR",
        "+3.9 (MedMentions)",
        {"mixed": _above(_name("Pb", "mixed", delta=0.1), _name("Pb", "mixed"))},
        AUPR,
    )


def _of_gradient_norms() -> Iterator[Claim]:
    yield Claim(
        "gradient-norms",
        "The norm of Pb's gradients varies less (random; mixed negatives), variance / mean²",
        "figure 3, no number",
        {kind: _above(_name("CE", kind), _name("Pb", kind)) for kind in ("random", "mixed")},
        RELATIVE_VARIANCE,
        scale=1.0,
        decimals=2,
    )


def _of_reranking() -> Iterator[Claim]:
    plain, adversarial = reranker(BEST).name, reranker(BEST, fgsm=True).name
    yield Claim(
        "reranking",
        "The reranker adds to the retriever, recall@1",
        "+2.4 (MedMentions), +9.7 (ZESHEL)",
        {"mixed": _above(plain, BEST.name)},
    )
    yield Claim(
        "reranking",
        "FGSM adds to the reranker, recall@1",
        "+0.6 (MedMentions), +1.8 (ZESHEL)",
        {"mixed": _above(adversarial, plain)},
    )


def _of_arms() -> Iterator[Claim]:
    rows = {"entities": "entities as rows", "names": "names as rows"}
    yield Claim(
        "claim",
        "In the paper's setting Pb is above CE (entities; names as rows), recall@1",
        "+4.8 (32, ZESHEL), +7.6 (64, MedMentions)",
        {
            label: _above(arm("Pb, cosine", kind).name, arm("CE, dot product", kind).name)
            for label, kind in rows.items()
        },
    )
    yield Claim(
        "claim",
        "In the paper's setting Pb is above CE of cosines times 32 (entities; names as rows), recall@1",
        "not tried",
        {
            label: _above(arm("Pb, cosine", kind).name, arm("CE, cosine times 32", kind).name)
            for label, kind in rows.items()
        },
    )


def _of_nil_by_arms() -> Iterator[Claim]:
    for other, paper in (
        ("CE, dot product", "+51.4 (MedMentions)"),
        ("CE, cosine times 32", "not tried"),
    ):
        yield Claim(
            "claim",
            f"In the paper's setting Pb tells NIL better than {other}, auPR",
            paper,
            {
                "entities": _above(
                    arm("Pb, cosine", "entities as rows").name, arm(other, "entities as rows").name
                )
            },
            AUPR,
        )


def _of_in_batch_arms() -> Iterator[Claim]:
    cases = {
        label: _above(_in_batch("Pb, cosine"), _in_batch(other))
        for label, other in (
            ("dot product", "CE, dot product"),
            ("times 32", "CE, cosine times 32"),
        )
    }
    also = "With the other entities of a batch as negatives, Pb"
    for text, path in (("is above CE", AT_1), ("tells NIL better than CE", AUPR)):
        figure_name = "recall@1" if path == AT_1 else "auPR"
        text = f"{also} {text} (dot product; cosines times 32), {figure_name}"
        yield Claim("claim-in-batch", text, "not tried", cases, path)


def _in_batch(name: str) -> str:
    return arm(name, "entities as rows", "in-batch").name


def _of_self_supervision() -> Iterator[Claim]:
    """Table 7 of KRISSBERT, whose effects are given for MedMentions (st21pv) and NCBI disease."""
    whole = WHOLE.name
    for part, paper, pair in (
        ("training", "not tried", (whole, untrained_self_supervised().name)),
        ("mention pairs", "+13.6, +5.3", (whole, self_supervised("without mention pairs").name)),
        ("references", "+2.0, +0.5", (whole, self_supervised("without references").name)),
        ("masking", "not tried", (whole, self_supervised("without masking").name)),
        ("replacement", "not tried", (whole, self_supervised("without replacement").name)),
        ("hard negatives", "not tried", (self_supervised("with hard negatives").name, whole)),
        ("hard negatives instead of pairs and masking", "not tried", (SHIPPED.name, whole)),
        ("aliases", "+0.3, 0.0", (whole, self_supervised("without aliases").name)),
        ("reranking", "+2.2, +0.4", (reranker(WHOLE).name, whole)),
    ):
        text = f"KRISSBERT gains from {part}, recall@1"
        yield Claim("krissbert", text, paper, {part: _above(*pair)})


def _of_arborescences() -> Iterator[Claim]:
    """Tables 1 and 5 of ArboEL: the means of its three arborescences, on MedMentions."""
    paper = {
        "in-batch negatives": ("+13.2", "+7.5", "+0.12"),
        "k-NN negatives": ("+15.0", "+9.2", "+0.03"),
    }
    for other, effects in paper.items():
        cases = {
            label: _above(objective(name).name, objective(other).name)
            for label, name in ARBORESCENCES.items()
        }
        for (figure_name, (path, scale, decimals)), effect in zip(COMPARED.items(), effects):
            text = f"Arborescences (all; 1-NN; 1-Rand) are above {other}, {figure_name}"
            yield Claim("arborescence", text, effect, cases, path, scale, decimals)
    yield Claim(
        "arborescence",
        "Pb is above a softmax of cosines (in-batch; k-NN negatives; arborescence), recall@1",
        "not tried",
        {
            label: _above(objective(f"Pb, {name}").name, objective(name).name)
            for label, name in (
                ("in-batch", "in-batch negatives"),
                ("k-NN", "k-NN negatives"),
                ("arborescence", "arborescence"),
            )
        },
    )


CLAIMS = [
    *_of_arms(),
    *_of_nil_by_arms(),
    *_of_in_batch_arms(),
    *_of_retrieval(),
    *_of_nil(),
    *_of_gradient_norms(),
    *_of_reranking(),
    *_of_arborescences(),
    *_of_self_supervision(),
]
