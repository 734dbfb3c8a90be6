"""A table by hand."""

from __future__ import annotations

import pytest

from spacy_pel.evaluation.linking_metrics import markdown_table


def test_a_table():
    assert markdown_table(["", "recall@1"], [["Pb", "72.6"], ["CE", "-"]]) == (
        "|    | recall@1 |\n| -- | -------: |\n| Pb |     72.6 |\n| CE |        - |"
    )
    with pytest.raises(ValueError, match="2 columns"):
        markdown_table(["", "recall@1"], [["Pb"]])
