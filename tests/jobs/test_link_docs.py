"""Docs are run through a pipeline as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc

from spacy_pel.errors import PelError
from spacy_pel.jobs.link_docs import link_documents

from ..cli.link_examples import TEXT
from ..cli.test_pel_start import two_linkers


def test_the_input_is_read_as_a_stream(tiny_nlp: Language) -> None:
    taken = count()

    def endless() -> Iterator[Doc]:
        while True:
            next(taken)
            yield tiny_nlp.make_doc(TEXT)

    assert len(list(islice(link_documents(tiny_nlp, endless(), batch_size=4), 6))) == 6
    assert next(taken) <= 12


def test_a_pipeline_without_a_linker_is_refused() -> None:
    with pytest.raises(PelError, match='no linker "proxy_linker" among its components .none.'):
        next(link_documents(spacy.blank("en"), []))


def test_the_linker_that_is_named_has_the_last_word(tiny_folder: Path) -> None:
    nlp = two_linkers(tiny_folder)
    for name, n in (("proxy_linker", 7), ("second", 1)):
        (record,) = link_documents(nlp, [nlp.make_doc(TEXT)], component=name)
        assert len(record["mentions"][0]["candidates"]) == n
