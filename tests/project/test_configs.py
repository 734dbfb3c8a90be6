"""Variants laid over the configs of all profiles: valid, and named by what makes the figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.configs import Choices, filled, make_run, places_of
from experiments.corpora import DEMO, KRISSBERT_MESH, MESH, Corpus
from experiments.profiles import PROFILES
from experiments.registry import BEST, EXPERIMENTS
from experiments.variants import Variant, reranker, retriever, self_supervised, untrained
from spacy import util
from spacy.lang.en import English
from spacy.schemas import ConfigSchemaTraining
from spacy.util import registry

from spacy_pel.architectures import architecture_of

CORPORA = {c.name: c for profile in PROFILES.values() for c in (*profile.linking, *profile.nil)}
VARIANTS = {v.name: v for experiment in EXPERIMENTS.values() for v in experiment.variants}
CHOICES = Choices("DATA", "ENCODER", limit=7, steps=20)
WORK = Path("work")


def test_a_name_stands_for_the_same_settings_everywhere() -> None:
    for experiment in EXPERIMENTS.values():
        for variant in experiment.variants:
            assert VARIANTS[variant.name] == variant
    assert len(EXPERIMENTS["retrieval"].variants) == 16 + 2  # step 0 of both similarities
    for paper in (p for e in EXPERIMENTS.values() for p in e.paper.values()):
        assert set(paper) <= set(VARIANTS)


SOME = [
    variant
    for variant in VARIANTS.values()
    if variant.needs or variant in (BEST, retriever("CE", "random", 64, fgsm=True))
]
# The variants of experiments that have corpora of their own, by the kind of corpora.
OWN = {
    kind: {v.name for e in EXPERIMENTS.values() if e.corpora == kind for v in e.variants}
    for kind in ("claim", "coreference", "self_supervision")
}
CASES = [
    (DEMO, variant)
    for variant in VARIANTS.values()
    if not any(variant.name in names for names in OWN.values())
]
CASES += [(corpus, variant) for corpus in CORPORA.values() for variant in SOME]
CASES += [
    (corpus, VARIANTS[name])
    for kind, names in OWN.items()
    for corpus in getattr(PROFILES["open"], kind)
    for name in sorted(names)
]


@pytest.mark.parametrize(
    ("corpus", "variant"),
    [(corpus, variant) for corpus, variant in CASES if corpus.has(variant.needs)],
    ids=lambda value: value.name,
)
def test_each_variant_makes_a_valid_config(corpus: Corpus, variant: Variant, project: Path) -> None:
    run = make_run(corpus, variant, 3, CHOICES, WORK)
    filled_in = English.default_config.merge(run.config).interpolate()
    assert "null/" not in str(filled_in["corpora"])  # of a place that nobody has filled
    registry.resolve(filled_in["training"], schema=ConfigSchemaTraining)
    registry.resolve(filled_in["corpora"])
    registry.resolve({"it": filled_in["components"]["proxy_linker"]})
    seed = 3 if variant.trained or not corpus.needs("encoder") else 0
    assert filled_in["training"]["max_steps"] == 20 and filled_in["training"]["seed"] == seed
    limit = variant.settings.get(".corpora.train.limit", 0 if corpus.is_mined else 7)
    assert filled_in["corpora"]["train"]["limit"] == limit
    for name, value in variant.settings.items():
        found = filled_in if name[0] == "." else filled_in["components"]["proxy_linker"]
        for part in name.strip(".").split("."):
            found = found[part]
        assert found == filled(value, places_of(corpus, CHOICES, WORK))


def test_settings_reach_the_linker(project: Path) -> None:
    run = make_run(DEMO, retriever("CE", "random", 64, fgsm=True), 0, Choices(), WORK)
    linker = util.load_model_from_config(run.config, auto_fill=True).get_pipe("proxy_linker")
    assert type(linker.loss).__name__ == "CrossEntropyLoss"
    assert architecture_of(linker.model).settings["similarity"] == "dot"
    assert (linker.negatives.n, linker.negatives.in_batch) == (64, False)
    assert linker.regularizer.epsilon == 0.01
    run = make_run(DEMO, retriever("Pb", "mixed", 32, delta=0.1), 0, Choices(), WORK)
    linker = util.load_model_from_config(run.config, auto_fill=True).get_pipe("proxy_linker")
    assert (linker.loss.alpha, linker.loss.delta) == (32, 0.1)
    assert (linker.negatives.hard, linker.negatives.random) == (16, 16)
    assert linker.regularizer is None


def test_the_digest_is_of_what_makes_the_figures(project: Path) -> None:
    corpus, variant = PROFILES["open"].linking[0], retriever("Pb", "mixed")

    def digest(variant: Variant = variant, seed: int = 0, work: str = "work", **choices) -> str:
        return make_run(corpus, variant, seed, Choices(**choices), Path(work)).digest

    same = [digest(data="A", encoder="E"), digest(data="B", encoder="E", work="elsewhere")]
    others = [
        digest(encoder="F"),
        digest(encoder="E", seed=1),
        digest(encoder="E", limit=5),
        digest(encoder="E", steps=5),
        digest(retriever("Pb", "mixed", delta=0.1), encoder="E"),
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 6


def test_an_untrained_encoder_that_is_given_has_no_seed(project: Path) -> None:
    def digests(corpus: Corpus, variant: Variant) -> int:
        return len({make_run(corpus, variant, seed, CHOICES, WORK).digest for seed in range(3)})

    assert digests(MESH, untrained("cosine")) == 1
    assert digests(MESH, retriever("Pb", "mixed")) == 3
    assert digests(DEMO, untrained("cosine")) == 3, "made from scratch, by the seed"


def test_steps_keep_the_share_of_the_warm_up(project: Path) -> None:
    config = make_run(DEMO, retriever("Pb", "mixed"), 0, Choices(steps=50), WORK).config
    schedule = config["training"]["optimizer"]["learn_rate"]
    assert (schedule["warmup_steps"], schedule["total_steps"]) == (5, 50)


def test_a_reranker_starts_from_its_retriever(project: Path) -> None:
    base = retriever("Pb", "mixed")
    run = make_run(DEMO, reranker(base), 1, Choices(), WORK)
    alone = make_run(DEMO, base, 1, Choices(), WORK)
    assert run.retriever.digest == alone.digest
    linker = run.config.interpolate()["components"]["proxy_linker"]
    assert linker["path"] == str(alone.folder / "pipeline")
    assert linker["kb"] == str(alone.folder / "kbs" / "kb")


def test_mined_mentions_are_streamed_and_gold_ones_are_found(project: Path) -> None:
    settings = {}
    for name in ("whole method", "gold and mined mentions", "gold mentions alone"):
        config = make_run(KRISSBERT_MESH, self_supervised(name), 0, CHOICES, WORK).config
        assert config["training"]["max_epochs"] == -1
        settings[name] = config.interpolate()["corpora"]["train"]["path"]
    mined, (first, *gold) = settings["whole method"], settings["gold and mined mentions"]
    assert mined == first == "work/krissbert-mesh/mined.parquet"
    assert gold == settings["gold mentions alone"]
    assert [Path(path).parent.name for path in gold] == ["bc5cdr", "ncbi_disease"]


def test_a_sampled_knowledge_base_is_another_one(project: Path) -> None:
    whole, sample = Choices("DATA", "ENCODER"), Choices("DATA", "ENCODER", entities=500)
    variant = retriever("Pb", "random", 32)
    runs = [make_run(MESH, variant, 0, choices, WORK) for choices in (whole, sample)]
    assert len({run.digest for run in runs}) == len({run.kb for run in runs}) == 2
    assert make_run(DEMO, variant, 0, sample, WORK).digest == (
        make_run(DEMO, variant, 0, Choices(), WORK).digest
    )
    assert places_of(MESH, whole, WORK)["source"] == "DATA/kb/mesh.jsonl.gz"
    assert places_of(MESH, sample, WORK)["source"] == str(WORK / "mesh-500" / "sample.jsonl")
