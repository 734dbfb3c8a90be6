import json
import os
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from ..conftest import run_python
from ..rankings import ranking_by_score
from .conftest import TRAIN, Trained, linked, mentions_of

# Links the docs of a DocBin with some pipelines, in its own process and in two workers.
SCRIPT = """
import json, sys
import spacy
from spacy.tokens import DocBin

assert "spacy_pel" not in sys.modules  # the name is found without an import
linker = spacy.blank("en").add_pipe("proxy_linker", config={"candidates": 7})
assert linker.search.candidates == 7 and linker.output.overwrite
assert "faiss" not in sys.modules
docs, *folders = sys.argv[1:]
linked = []
for nlp in map(spacy.load, folders):
    for n_process in (1, 2):
        given = DocBin().from_disk(docs).get_docs(nlp.vocab)
        linked.append([
            [e.kb_id_, e._.kb_score, e._.kb_probability, list(e._.kb_candidates)]
            for doc in nlp.pipe(given, n_process=n_process, batch_size=7)
            for e in doc.ents
        ])
print(json.dumps(linked))
"""


def test_they_give_the_same(trained: Trained, reranked: Trained, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after" / "here"
    shutil.copytree(trained.kb, before / "kb")
    calibrated = spacy.load(trained.path)
    linker = calibrated.get_pipe("proxy_linker")
    linker.set_kb(before / "kb")
    scores = sorted(score for _, score, *_ in linked(calibrated))
    linker.ranking = ranking_by_score(slope=400.0, none=400 * scores[len(scores) // 2])
    linker.nil_threshold = 0.5
    calibrated.to_disk(before / "linker")
    onnx = {"components": {"proxy_linker": {"runtime": "onnx-int8"}}}
    quantised = spacy.load(trained.path, config=onnx)
    quantised.to_disk(tmp_path / "onnx")
    expected = [linked(nlp) for nlp in (calibrated, quantised, reranked.nlp)]
    after.parent.mkdir()
    before.rename(after)  # the pipeline and its KB are moved together

    DocBin(docs=mentions_of(spacy.blank("en"), TRAIN)).to_disk(tmp_path / "docs.spacy")
    folders = [after / "linker", tmp_path / "onnx", reranked.path]
    # With threads in the parent: a fork inherits the pools but not their threads.
    own = {**os.environ, "OMP_NUM_THREADS": "2"}
    found = json.loads(run_python(SCRIPT, tmp_path / "docs.spacy", *folders, env=own))
    for alone, shared, own in zip(found[::2], found[1::2], expected, strict=True):
        assert shared == alone
        assert [id for id, *_ in alone] == [id for id, *_ in own]
        assert [score for _, score, *_ in alone] == pytest.approx([s for _, s, *_ in own], abs=1e-5)
    ids = [id for id, *_ in expected[0]]
    assert 0 < ids.count("NIL") < len(ids)
