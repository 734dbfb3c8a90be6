import pytest

from spacy_pel.kb import KnowledgeBase, build_kb

from .kbs import ENTITIES


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """A KB of ENTITIES without vectors, for the tests of one file."""
    return build_kb(ENTITIES, tmp_path_factory.mktemp("training") / "kb")
