"""Both linkers, over the same entities. Run by ``make test-scispacy``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import spacy
import torch
from spacy.language import Language

from spacy_pel import KnowledgeBase
from spacy_pel.batch.embed import embed_kb
from spacy_pel.kb import build_kb, open_source

from ..conftest import CONFIG
from .demo import UMLS, named_pipeline, offer_to_scispacy


@pytest.fixture(scope="session")
def demo_pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved pipeline of a "proxy_linker" with random weights alone, linking to the demo's KB."""
    folder = tmp_path_factory.mktemp("demo")
    source = open_source(UMLS)
    # The types are known once the entities are read.
    kb = build_kb(source.entities, folder / "kb", types=source.types).path
    torch.manual_seed(0)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(kb)})
    linker.model.initialize(X=[name for entity in linker.kb for name in entity.names])
    embed_kb(kb, linker)
    linker.set_kb(kb)
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


@pytest.fixture(scope="session")
def demo_kb(demo_pipeline: Path, tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """The demo's KB, which scispaCy's linker links to as well, with linker_name="demo"."""
    kb = KnowledgeBase.open(demo_pipeline.parent / "kb")
    offer_to_scispacy(kb, tmp_path_factory.mktemp("scispacy"))
    return kb


@pytest.fixture
def pipeline(demo_kb: KnowledgeBase, demo_pipeline: Path) -> Callable[..., Language]:
    """``named_pipeline`` of these, with linkers and their settings."""
    return partial(named_pipeline, demo_kb, demo_pipeline)
