"""A run from its config to its line of results, killed in between, on the demo."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from experiments import runner as module
from experiments.configs import Choices, Run, make_run
from experiments.corpora import DEMO, ZESHEL
from experiments.runner import Runner
from experiments.variants import Variant, learning, reranker, retriever, untrained

from spacy_pel.cli import pel
from spacy_pel.kb import KnowledgeBase

from ..architectures.test_architectures import save_bert
from ..corpora.layouts import write_zeshel

CHOICES = Choices(limit=6, steps=2)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that the runner gives, which are done in this process to save time."""
    given = []

    def in_this_process(arguments: Sequence[str]) -> None:
        given.append(arguments[0])
        pel(list(arguments), standalone_mode=False)

    monkeypatch.setattr(module, "_pel", in_this_process)
    return given


def run_of(runner: Runner, seed: int = 0) -> Run:
    return make_run(DEMO, retriever("Pb", "random", 8), seed, CHOICES, runner.work)


def test_a_run_is_done_once_and_taken_up_after_a_crash(
    project: Path, tmp_path: Path, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    run = run_of(runner)
    runner.prepare(DEMO, CHOICES, [run.variant])
    runner.prepare(DEMO, CHOICES, [run.variant])
    with monkeypatch.context() as patch:
        patch.setattr(module, "evaluate_cross_fitted", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runner.do("retrieval", [run])
    assert list(runner.results) == []
    runner.do("retrieval", [run])
    runner.do("retrieval", [run])
    assert commands == ["kb", "train"]

    (line,) = runner.results
    assert (line["variant"], line["corpus"], line["seed"]) == ("Pb, random 8", "demo", 0)
    assert 0 <= line["metrics"]["demo"]["recall@1"]["in_kb"] <= 1
    assert line["training"]["steps"] == 3 and line["training"]["passes"]["proxies"] > 0
    assert line["training"]["gradient_norm"]["mean"] > 0
    assert line["command"] == (
        "python scripts/experiment.py run retrieval --profile demo --corpus demo --seeds 0 "
        "--limit 6 --steps 2"
    )
    assert line["fitted"] == "on the other half of the documents"
    assert "seed = 0" in line["config"] and "WORK/demo/kb" in line["config"]
    assert str(tmp_path) not in line["config"]
    record = runner.folder / line["record"]
    assert {path.name for path in record.iterdir()} == {"config.cfg", "log.jsonl", "metrics.json"}
    assert "seed = 0" in (record / "config.cfg").read_text()
    assert not run.folder.exists()  # weights and vectors


def test_step_0_is_the_untrained_encoder(
    project: Path, tmp_path: Path, commands: list[str]
) -> None:
    whole = {".initialize.components.proxy_linker.searched_entities": None, ".corpora.dev.limit": 6}
    corpus = DEMO._replace(settings={**DEMO.settings, **whole}, evaluated_every=10)
    choices = Choices(limit=6, steps=10)
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    variants = (untrained("cosine"), retriever("Pb", "random", 8))
    runner.prepare(corpus, choices, variants)
    runner.do("retrieval", [make_run(corpus, v, 0, choices, runner.work) for v in variants])
    assert commands == ["kb", "train"]
    before, after = runner.results
    assert before["training"] == {"steps": 0}
    found = before["metrics"]["demo"]
    assert found["mentions"] == after["metrics"]["demo"]["mentions"] > 0
    assert found["seen"] == after["metrics"]["demo"]["seen"] > 0
    curve = after["training"]["curve"]
    assert curve["step"] == [0, 10]
    assert curve["recall@1"][0] == pytest.approx(found["recall@1"]["in_kb"], abs=1e-4)
    assert curve["recall@1"][1] != curve["recall@1"][0]


def test_mentions_are_linked_together_and_rerankers_compared(
    project: Path, tmp_path: Path, commands: list[str]
) -> None:
    corpus = DEMO._replace(jointly=True)
    first, second = (retriever("Pb", "random", n) for n in (8, 4))
    reranked = reranker(first, rivals=(first, second))
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    runner.prepare(corpus, CHOICES, [reranked])
    runs = [make_run(corpus, v, 0, CHOICES, runner.work) for v in (first, reranked)]
    runner.do("arborescence-reranking", runs)
    assert commands == ["kb", "train", "train", "train"]  # the second retriever is needed as well
    assert not any(run.folder.exists() for run in runs)

    alone, again = (line["metrics"]["demo"] for line in runner.results)
    for found in (alone, again):
        recall = found["jointly"]["recall@1"]
        assert recall["one by one"]["in_kb"] == pytest.approx(found["recall@1"]["in_kb"], abs=1e-4)
        assert 0 <= found["jointly"]["coreference_recall@64"] <= 1
        assert found["discovery"]["lacking"] > 0
    assert "oracle" not in alone
    assert again["oracle"]["retrieved"] <= again["oracle"]["self"] <= 1


def test_what_others_need_stays_until_they_are_done(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=False)
    base = run_of(runner)
    on_it = [
        run_of(runner, 1)._replace(retriever=base),
        run_of(runner, 2)._replace(rivals=(base,)),
    ]
    seen = []

    def pretend(experiment: str, run: Run) -> None:
        seen.append((run.seed, base.folder.exists()))
        run.folder.mkdir(parents=True)
        runner.results.append({"digest": run.digest})

    monkeypatch.setattr(runner, "_do", pretend)
    runner.do("reranking", [base, *on_it])
    assert seen == [(0, False), (1, True), (2, True)]
    assert not any(run.folder.exists() for run in (base, *on_it))


def test_worlds_have_knowledge_bases_of_their_own_and_are_averaged(
    project: Path, tmp_path: Path, commands: list[str]
) -> None:
    """ZESHEL from its files to a line of results, retriever and reranker, on two small worlds."""
    mentions = write_zeshel(tmp_path / "zeshel") / "mentions"
    shutil.copy(mentions / "test.json", mentions / "heldout_train_unseen.json")
    worlds = {world: f"{{data}}/zeshel:test:{world}" for world in ("garden", "harbour")}
    documents = [f"{{data}}/zeshel/documents/{world}.json" for world in worlds]
    (tmp_path / "bert").mkdir()
    corpus = ZESHEL._replace(
        prepare=(
            ("kb", "build", *documents, "{work}/kb"),
            *(("kb", "build", file, f"{{work}}/{w}") for w, file in zip(worlds, documents)),
        ),
        dev=worlds,
        kbs={world: f"{{work}}/{world}" for world in worlds},
        settings={**ZESHEL.settings, ".paths.encoder": save_bert(tmp_path / "bert")},
    )
    base = retriever("Pb", "random", 2)
    choices = Choices(data=str(tmp_path), steps=2)
    runner = Runner("paper", tmp_path / "results", tmp_path / "work", keep=False)
    runner.prepare(corpus, choices, [base])
    variants = (base, reranker(base))
    runner.do("reranking", [make_run(corpus, v, 0, choices, runner.work) for v in variants])

    assert [line["variant"] for line in runner.results] == [v.name for v in variants]
    for line in runner.results:
        metrics = line["metrics"]
        assert [metrics[w]["mentions"] for w in ("garden", "harbour", "all worlds")] == [1, 3, 4]
        garden, harbour = (metrics[world]["recall@1"]["all"] for world in worlds)
        micro, macro = (metrics[w]["recall@1"]["all"] for w in ("all worlds", "mean of worlds"))
        assert micro == pytest.approx((garden + 3 * harbour) / 4, abs=1e-4)
        assert macro == pytest.approx((garden + harbour) / 2, abs=1e-4)


def test_a_knowledge_base_learns_mentions_for_a_retriever_that_stays(
    project: Path, tmp_path: Path, commands: list[str]
) -> None:
    runner = Runner("demo", tmp_path / "results", tmp_path / "work", keep=True)
    corpus = DEMO._replace(train=("assets/demo/corpus/train.pubtator",))
    pairs = {"loss": None, "pair_loss": {"@losses": "spacy-pel.MentionPairLoss.v1"}}
    base = Variant("pairs alone", {**pairs, "regularizer": None})
    few, more = (learning(base, f"{n} documents", "{train}", n) for n in (2, 6))
    runner.prepare(corpus, CHOICES, [base])
    runs = [make_run(corpus, variant, 0, CHOICES, runner.work) for variant in (base, few, more)]
    runner.do("krissbert", runs)
    assert commands == ["kb", "train"]
    sizes = []
    for run, line in zip(runs, runner.results):
        assert line["training"] == list(runner.results)[0]["training"]
        assert line["metrics"]["demo"]["mentions"] > 0
        with KnowledgeBase.open(run.own(run.kb)) as kb:
            sizes.append(kb.mentions.counts() if kb.mentions else {})
    assert sizes[0] == {}
    assert 0 < sum(sizes[1].values()) < sum(sizes[2].values())
    assert len({run.digest for run in runs}) == len({run.name for run in runs}) == 3
