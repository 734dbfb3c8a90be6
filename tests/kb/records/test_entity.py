"""A record of an entity."""

from spacy_pel.kb import Entity
from spacy_pel.kb.records.entity import cleaned


def test_a_name_that_is_left_out_is_in_no_scope() -> None:
    entity = Entity("1", "Lung", ("lungs", "LUNG."), exact_names=("LUNG.", "lungs"))
    left = entity.without("lung")
    assert left == Entity("1", "lungs", exact_names=("lungs",))
    assert cleaned(left).names == ("lungs",)
    assert left.without("Lungs") is None
