import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from thinc.api import fix_random_seed

from spacy_pel.batch.embed import embed_kb
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.pipeline.kb_component import KBComponent

from .conftest import CONFIG, PROBLEM, TRAIN, embedded, examples, results
from .test_one_encoder import LISTENER, RECOGNISER

N_THREADS = 8
TEXTS = [text for text, _ in TRAIN]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline of all three components."""
    fix_random_seed(0)
    folder = tmp_path_factory.mktemp("threads")
    kb = build_kb(PROBLEM, folder / "kb").path
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_ner", config={"model": RECOGNISER, "kb": str(kb)})
    scratch = {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]}
    shared = {"@architectures": "spacy-pel.SharedEncoder.v1", "tok2vec": LISTENER}
    model = {**shared, "encoder": scratch, "entity_length": 32, "surface": True}
    nlp.add_pipe("kb_matcher", config={"kb": str(kb)})
    nlp.add_pipe("proxy_linker", config={**CONFIG, "model": model, "kb": str(kb)})
    nlp.initialize(lambda: examples(nlp))
    embedded(nlp, kb).to_disk(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(autouse=True)
def many_switches() -> Iterator[None]:
    """Threads give way to each other a hundred times as often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def at_once(call: Callable[[str], object], texts: list[str]) -> list[object]:
    """The results of eight threads that begin together, each with the next text."""
    begin = threading.Barrier(N_THREADS)

    def first(text: str) -> object:
        begin.wait()
        return call(text)

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(first, texts[:N_THREADS]))


def components(nlp: Language) -> list[KBComponent]:
    return [pipe for _, pipe in nlp.pipeline if isinstance(pipe, KBComponent)]


def test_first_calls_of_threads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The components open their KB once. The same holds after a KB was set."""
    expected = [results([doc]) for doc in map(spacy.load(folder), TEXTS[:N_THREADS])]
    nlp = None
    opened, open_kb = [], KnowledgeBase.__init__

    def counted(kb: KnowledgeBase, path: Path) -> None:
        opened.append(path)
        open_kb(kb, path)

    monkeypatch.setattr(KnowledgeBase, "__init__", counted)
    for _ in range(4):
        del nlp
        gc.collect()  # with its KB
        nlp = spacy.load(folder)
        opened.clear()
        assert at_once(lambda text: results([nlp(text)]), TEXTS) == expected
        assert len(opened) == 1 and len(components(nlp)) == 3
        for component in components(nlp):
            component.set_kb(component.kb.path)
        assert at_once(lambda text: results([nlp(text)]), TEXTS) == expected


def test_the_kb_is_another_one_while_threads_link(folder: Path, tmp_path: Path) -> None:
    """Each answer is of one KB: the names of one go with its ids."""
    nlp = spacy.load(folder)
    old = components(nlp)[0].kb.path
    others = [Entity(f"Z{e.concept_id}", f"the {e.canonical_name}") for e in PROBLEM[2:]]
    linker = nlp.get_pipe("proxy_linker")
    new = embed_kb(build_kb(others, tmp_path / "kb").path, linker).path
    linker.set_kb(old)
    names = {e.concept_id: e.canonical_name for e in (*PROBLEM, *others)}
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for path in (new, old):
                for component in components(nlp):
                    component.set_kb(path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(5):
            for doc in at_once(nlp, TEXTS):
                for ent in doc.ents:
                    found = ent._.kb_candidates
                    assert all(names[each["id"]] == each["name"] for each in found)
                    assert len({each["id"].startswith("Z") for each in found}) <= 1
    finally:
        over.set()
        swapping.join()
