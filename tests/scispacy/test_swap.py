"""The line ``nlp.add_pipe("scispacy_linker", ...)`` replaced: users' code runs unchanged."""

from itertools import groupby, product
from operator import itemgetter
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span

from .demo import users_code

pytest.importorskip("scispacy", reason="scispaCy is not installed: run make test-scispacy")

SCISPACY, OURS = "scispacy_linker", "proxy_linker"
TEXT = (
    "Multiple Sclerosis was confirmed by MRI of the brain. Her fatigue is treated with "
    "methotrexate, and the nurse saw a laceration."
)
# Of both linkers all candidates, with or without definition.
OPEN = {"filter_for_definitions": False, "threshold": 0.1, "max_entities_per_mention": 4}


def of_mentions(rows) -> dict[str, list]:
    return {mention: list(group) for mention, group in groupby(rows, key=itemgetter("mention"))}


def test_users_code_runs_on_both(pipeline) -> None:
    answers = {}
    for name in (SCISPACY, OURS):
        answers[name] = of_mentions(users_code(pipeline(name, **OPEN), name, TEXT))
        assert len(answers[name]) >= 5
        for rows in answers[name].values():
            scores = [row["score"] for row in rows]
            behind = scores[name == OURS :]  # ours puts the only owner of a name first
            assert behind == sorted(behind, reverse=True) and min(scores) > OPEN["threshold"]
            assert len(rows) <= 4 and all(type(score) is float for score in scores)
    assert max(map(len, answers[OURS].values())) == 4
    # What is said of an entity, once it is found, is the same.
    facts = {
        name: {
            row["cui"]: {**row, "mention": None, "score": None} for row in sum(rows.values(), [])
        }
        for name, rows in answers.items()
    }
    both = facts[SCISPACY].keys() & facts[OURS].keys()
    assert len(both) >= 5
    for cui in both:
        assert facts[SCISPACY][cui] == facts[OURS][cui]


def test_the_knowledge_bases_are_the_same_to_a_user(pipeline) -> None:
    nlp = pipeline(SCISPACY, OURS)
    theirs, ours = nlp.get_pipe(SCISPACY).kb, nlp.get_pipe(OURS).kb
    assert ours.cui_to_entity.keys() == theirs.cui_to_entity.keys()
    assert len(ours.cui_to_entity) == len(theirs.cui_to_entity)
    for cui, entity in theirs.cui_to_entity.items():
        got = ours.cui_to_entity[cui]
        assert got._replace(types=set(got.types)) == entity._replace(types=set(entity.types))
    for name in list(theirs.alias_to_cuis)[::20]:
        assert ours.alias_to_cuis[name] == theirs.alias_to_cuis[name]
    for kb in (theirs, ours):
        assert "C9999999" not in kb.cui_to_entity and kb.alias_to_cuis.get("no name") is None


@pytest.mark.parametrize("name", [SCISPACY, OURS])
def test_the_settings_mean_the_same(pipeline, name) -> None:
    """A linker's answers under settings follow from its own without any, by scispaCy's rule."""
    free = {"filter_for_definitions": False, "threshold": -1.0, "max_entities_per_mention": 10**6}
    nlp = pipeline(name, **free, no_definition_threshold=0.8)
    linker = nlp.get_pipe(name)
    settings = getattr(linker, "output", linker)  # of ours, and of scispaCy's
    all_of = [ent._.kb_ents for ent in nlp(TEXT).ents]
    for filtered, threshold, most in product([True, False], [0.0, 0.6, 0.9], [0, 1, 5]):
        settings.filter_for_definitions = filtered
        settings.threshold, settings.max_entities_per_mention = threshold, most
        for ent, everything in zip(nlp(TEXT).ents, all_of):
            kept = [
                (cui, score)
                for cui, score in everything
                if score > threshold
                and (score >= 0.8 or not filtered or linker.kb.cui_to_entity[cui].definition)
            ]
            assert ent._.kb_ents == kept[:most]


def test_the_last_of_two_linkers_writes_kb_ents(pipeline) -> None:
    alone = {
        name: [ent._.kb_ents for ent in pipeline(name, **OPEN)(TEXT).ents]
        for name in (SCISPACY, OURS)
    }
    assert alone[SCISPACY] != alone[OURS]
    ids = [ent.kb_id_ for ent in pipeline(OURS, **OPEN)(TEXT).ents]
    for order in ((SCISPACY, OURS), (OURS, SCISPACY)):
        ents = pipeline(*order, **OPEN)(TEXT).ents
        assert [ent._.kb_ents for ent in ents] == alone[order[-1]]
        # What is ours alone is there whichever comes last.
        assert [ent.kb_id_ for ent in ents] == ids
        assert [[c["id"] for c in ent._.kb_candidates[:4]] for ent in ents] == [
            [id for id, _ in pairs] for pairs in alone[OURS]
        ]
        assert Span.get_extension("kb_ents") == ([], None, None, None)


def test_a_pipeline_with_both_is_saved_and_loaded(pipeline, tmp_path: Path) -> None:
    nlp = pipeline(SCISPACY, OURS, **OPEN)
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    for name in (SCISPACY, OURS):
        assert list(users_code(again, name, TEXT)) == list(users_code(nlp, name, TEXT))
