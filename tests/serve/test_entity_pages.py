"""The page of an entity at its source, by its id."""

import pytest

from spacy_pel.serve.entity_pages import entity_page


@pytest.mark.parametrize(
    ("id", "page"),
    [
        ("D009103", "https://meshb.nlm.nih.gov/record/ui?ui=D009103"),
        ("C538261", "https://meshb.nlm.nih.gov/record/ui?ui=C538261"),
        ("D000077466", "https://meshb.nlm.nih.gov/record/ui?ui=D000077466"),
        ("MESH:D009103", "https://meshb.nlm.nih.gov/record/ui?ui=D009103"),
        ("C0026769", "https://uts.nlm.nih.gov/uts/umls/concept/C0026769"),
        ("HP:0000118", "http://purl.obolibrary.org/obo/HP_0000118"),
        ("MONDO:0005301", "http://purl.obolibrary.org/obo/MONDO_0005301"),
        ("OMIM:600807", "https://omim.org/entry/600807"),
        ("Orphanet:558", "https://www.orpha.net/en/disease/detail/558"),
        ("http://purl.obolibrary.org/obo/HP_1", "http://purl.obolibrary.org/obo/HP_1"),
        ("javascript:alert(1)", None),
        ("D12", None),
        ("X:1", None),
        ("73211009", None),
    ],
)
def test_the_page_of_an_id(id: str, page: str | None) -> None:
    assert entity_page(id) == page
    assert entity_page(id, "https://example.org/{id}").startswith("https://example.org/")


def test_an_id_cannot_change_the_address() -> None:
    assert (
        entity_page("a/../b?c", "https://example.org/{id}") == "https://example.org/a%2F..%2Fb%3Fc"
    )
