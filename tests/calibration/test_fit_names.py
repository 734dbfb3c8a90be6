from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span
from spacy.util import fix_random_seed

from spacy_pel.batch.embed import embed_kb
from spacy_pel.calibration import fit_names
from spacy_pel.calibration.fit_names import fit_to_names
from spacy_pel.kb import Entity, KnowledgeBase, build_kb

from ..conftest import CONFIG

SYLLABLES = ["ba", "ko", "mi", "ru", "te", "zu", "lo", "na"]


def linking_to(entities: list[Entity], folder: Path) -> Language:
    build_kb(entities, folder)
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe(
        "proxy_linker", config={**CONFIG, "kb": str(folder), "index_unit": "name"}
    )
    fix_random_seed(0)
    nlp.initialize()
    embed_kb(folder, linker)
    linker.set_kb(folder)
    return nlp


def test_names_that_were_taken_out_are_found_and_the_kb_stays(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    names = {"".join(rng.choice(SYLLABLES, size=5)) for _ in range(150)}
    entities = [Entity(f"E{i}", name, (f"{name}x",)) for i, name in enumerate(sorted(names))]
    nlp = linking_to(entities, tmp_path / "kb")
    linker, before = nlp.get_pipe("proxy_linker"), (tmp_path / "kb" / "kb.sqlite").read_bytes()
    assert fit_to_names(nlp, tmp_path / "scratch")
    assert (tmp_path / "kb" / "kb.sqlite").read_bytes() == before
    assert linker.kb.path == tmp_path / "kb" and not (tmp_path / "scratch").exists()
    chances = []
    for texts in ([e.canonical_name for e in entities], [e.canonical_name[::-1] for e in entities]):
        docs = [nlp.make_doc(text) for text in texts]
        for doc in docs:
            doc.ents = [Span(doc, 0, len(doc), label="ENTITY")]
        chances.append(np.mean([doc.ents[0]._.kb_probability for doc in nlp.pipe(docs)]))
    assert chances[0] > 2 * chances[1] and linker.nil_threshold is not None
    fitted = linker.settings_of_weights()
    assert fit_to_names(nlp, tmp_path / "scratch") and linker.settings_of_weights() == fitted


def test_a_small_kb_is_not_enough(tmp_path: Path) -> None:
    nlp = linking_to([Entity("E1", "mumps"), Entity("E2", "measles")], tmp_path / "kb")
    assert not fit_to_names(nlp, tmp_path / "scratch")
    assert nlp.get_pipe("proxy_linker").ranking is None


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch) -> None:
    entities = [Entity(f"E{i}", f"name {i}") for i in range(fit_names._MIN_ENTITIES)]
    nlp = linking_to(entities, tmp_path / "kb")
    monkeypatch.setattr(fit_names, "fit", lambda *arguments, **named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fit_to_names(nlp, tmp_path / "scratch")
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]
    assert KnowledgeBase.open(nlp.get_pipe("proxy_linker").kb.path)
