"""The trained package's linker in a pipeline of the shape of scispaCy's en_ner_bc5cdr_md."""

from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.training import Example
from spacy.util import fix_random_seed

pytest.importorskip("scispacy", reason="scispaCy is not installed: run make test-scispacy")
pytest.importorskip("en_pel_mesh_sm", reason="the package of releases/ is not installed")

TEXT = "Methotrexate was stopped as her rheumatoid arthritis (RA) flared. RA is treated again."
ENTS = [(0, 12, "CHEMICAL"), (32, 52, "DISEASE"), (54, 56, "DISEASE"), (66, 68, "DISEASE")]
RHEUMATOID = "D001172"


@pytest.fixture(scope="module")
def nlp() -> Language:
    """Its components, which have learnt one text: "ner" finds no mention that the parser parts."""
    fix_random_seed(0)
    nlp = spacy.blank("en")
    for name in ("tok2vec", "tagger", "attribute_ruler", "parser", "ner"):
        nlp.add_pipe(name, config={"min_action_freq": 1} if name == "parser" else {})
    n = len(nlp.make_doc(TEXT))
    words = {"tags": ["NN"] * n, "heads": [0] * n, "deps": ["ROOT"] + ["dep"] * (n - 1)}
    example = Example.from_dict(nlp.make_doc(TEXT), {**words, "entities": ENTS})
    nlp.initialize(lambda: [example])
    for _ in range(40):
        nlp.update([example])
    lookups = Lookups()
    lookups.add_table("lemma_lookup", {})
    lemmatizer = nlp.add_pipe("lemmatizer", config={"mode": "lookup"}, before="parser")
    lemmatizer.initialize(lookups=lookups)
    return nlp


def test_ids_come_out_and_the_linker_reads_by_itself(nlp: Language, tmp_path: Path) -> None:
    import scispacy.abbreviation  # noqa: F401

    nlp.add_pipe("abbreviation_detector")
    linker = nlp.add_pipe("proxy_linker", config={"path": "en_pel_mesh_sm"})
    assert linker.reader is not None  # the copy of "kb_ner", which this pipeline has not
    ents = nlp(TEXT).ents
    assert [(ent.start_char, ent.end_char, ent.label_) for ent in ents] == ENTS
    assert [ent.kb_id_ for ent in ents] == ["D008727", RHEUMATOID, RHEUMATOID, RHEUMATOID]
    assert min(ent._.kb_probability for ent in ents) > 0.5
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert again.get_pipe("proxy_linker").reader is not None
    assert [ent._.kb_ents for ent in again(TEXT).ents] == [ent._.kb_ents for ent in ents]
