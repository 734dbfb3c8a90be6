import pytest

from spacy_pel.serve.entity_pages import entity_page

MESH, PURL = "https://meshb.nlm.nih.gov/record/ui?ui=", "http://purl.obolibrary.org/obo/"


@pytest.mark.parametrize(
    ("id", "page"),
    [
        ("D009103", f"{MESH}D009103"),
        ("C538261", f"{MESH}C538261"),
        ("MESH:D000077466", f"{MESH}D000077466"),
        ("C0026769", "https://uts.nlm.nih.gov/uts/umls/concept/C0026769"),
        ("HP:0000118", f"{PURL}HP_0000118"),
        ("OMIM:600807", "https://omim.org/entry/600807"),
        ("Orphanet:558", "https://www.orpha.net/en/disease/detail/558"),
        (f"{PURL}HP_1", f"{PURL}HP_1"),
        *((other, None) for other in ("javascript:alert(1)", "D12", "X:1", "73211009")),
    ],
)
def test_the_page_of_an_id(id: str, page: str | None) -> None:
    assert entity_page(id) == page
    assert entity_page(id, "https://example.org/{id}").startswith("https://example.org/")


def test_an_id_cannot_change_the_address() -> None:
    page = entity_page("a/../b?c", "https://example.org/{id}")
    assert page == "https://example.org/a%2F..%2Fb%3Fc"
