"""``resolve_abbreviations`` with scispaCy's own AbbreviationDetector."""

import pytest
import spacy

from spacy_pel.pipeline.doc_mentions import mentions_in_context

pytest.importorskip("scispacy", reason="scispaCy is not installed: run make test-scispacy")

TEXT = (
    "Spinal and bulbar muscular atrophy (SBMA) is an inherited disease of the androgen receptor "
    "(AR). SBMA was seen in early life, and AR was measured."
)


@pytest.mark.parametrize("make_serializable", [False, True])
def test_a_short_form_is_encoded_as_its_long_form(make_serializable: bool) -> None:
    import scispacy.abbreviation  # noqa: F401  (it registers the component)

    nlp = spacy.blank("en")
    nlp.add_pipe("abbreviation_detector", config={"make_serializable": make_serializable})
    patterns = [{"label": "ENTITY", "pattern": short} for short in ("SBMA", "AR")]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    doc = nlp(TEXT)
    assert [ent.text for ent in doc.ents] == ["SBMA", "AR", "SBMA", "AR"]
    mentions = mentions_in_context(doc, doc.ents, None, True)
    long = "Spinal and bulbar muscular atrophy"
    expected = [long, "androgen receptor", long, "androgen receptor"]
    assert [mention.surface for mention in mentions] == expected
    # Those are the long forms that scispaCy's linker looks up.
    theirs = [ent._.long_form for ent in doc.ents]
    assert [getattr(form, "text", form) for form in theirs] == expected


@pytest.mark.parametrize("linker", ["scispacy_linker", "proxy_linker"])
def test_the_other_mentions_of_a_short_form_follow_it(pipeline, linker) -> None:
    text = "Multiple Sclerosis (MS) is old. Fatigue is common in MS."
    settings = {"filter_for_definitions": False, "threshold": 0.1}
    last = {}
    for resolve in (True, False):
        nlp = pipeline(linker, **settings, resolve_abbreviations=resolve)
        last[resolve] = nlp(text).ents[-1]
        spelt_out = nlp(text.replace("MS", "Multiple Sclerosis")).ents[-1]
    assert last[True].text == "MS" and spelt_out.text == "Multiple Sclerosis"
    assert last[True]._.kb_ents == spelt_out._.kb_ents != last[False]._.kb_ents
