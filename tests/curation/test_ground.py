"""The entities that names mean."""

from pathlib import Path

import spacy

from spacy_pel.curation.ground import ground
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import change_entities
from spacy_pel.models.architectures import entity_vectors
from spacy_pel.text.entity_texts import EntityText

LIVER = Entity("C08", "hepatic cirrhosis", ("cirrhosis of the liver",))


def test_names_are_grounded_best_first(bare_kb: KnowledgeBase) -> None:
    change_entities(bare_kb.path, "add", [LIVER])
    bare_kb.refresh()
    owners, near, none = ground(bare_kb, ["MS", "cirrhosis hepatis", "xyzzy"], n=2)
    assert [(m.id, m.probability) for m in owners] == [("C01", 0.5), ("C02", 0.5)]
    assert (near[0].id, near[0].name) == ("C08", "hepatic cirrhosis") and near[0].probability > 0.5
    assert none == [] and ground(bare_kb, []) == []
    [[exact]] = ground(bare_kb, ["Multiple  Sclerosis"], n=1)
    assert (exact.id, exact.probability) == ("C01", 0.99)


def test_a_pipeline_compares_vectors(tiny_folder: Path) -> None:
    linker = spacy.load(tiny_folder).get_pipe("proxy_linker")
    name = "disseminated sclerosis x"  # no exact name, so the vectors decide
    [[best, *_]] = ground(linker, [name])
    query = entity_vectors(linker.retriever, [EntityText(name)])
    assert linker.kb.labels(linker.kb.search(query, 1).numbers[0])[0][0] == best.id
