from spacy_pel.kb import Entity
from spacy_pel.reading.entity_texts import EntityText, proxy_texts

MS = Entity("C1", "Multiple sclerosis", ("MS", "Sclerosis"), ("Disease", "Finding"), "Of nerves.")


def test_the_rows_of_an_entity() -> None:
    types, bare = "Disease, Finding", MS._replace(definition=None)
    whole = EntityText(MS[1], types, "MS; Sclerosis. Of nerves.")
    assert proxy_texts(MS, "entity") == [whole]
    assert proxy_texts(bare, "entity") == [whole._replace(description="MS; Sclerosis")]
    # The text of the paper (PEL, appendix A): title, types and description.
    assert proxy_texts(MS, "title") == [EntityText(MS[1], types, "Of nerves.")]
    names = [EntityText(MS[1], types), *(EntityText(n, types, MS[1]) for n in MS.aliases)]
    assert proxy_texts(MS, "name") == names
    described = [text.description for text in proxy_texts(MS, "described-name")]
    assert described == ["Of nerves.", *["Multiple sclerosis. Of nerves."] * 2]
    repeated = MS._replace(aliases=("MS", MS[1], "MS"))
    assert [text.title for text in proxy_texts(repeated, "name")] == [MS[1], "MS"]
    assert proxy_texts(Entity("C2", "Aspirin"), "name") == [EntityText("Aspirin")]
