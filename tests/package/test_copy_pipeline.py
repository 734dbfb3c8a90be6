import shutil
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.kb.change import remove_entities
from spacy_pel.kb.location import kb_folder
from spacy_pel.package.copy_pipeline import copy_pipeline

from ..conftest import contents

TEXT = "Aspirin relieves headache. The patient has MS."


def ids(pipeline: Path) -> list[str]:
    return [ent.kb_id_ for ent in spacy.load(pipeline)(TEXT).ents]


def test_a_copy(own_nlp: Language, own_kb: Path, tmp_path: Path) -> None:
    own_nlp.to_disk(tmp_path / "pipeline")
    before, linked = contents(own_kb), ids(tmp_path / "pipeline")
    made = copy_pipeline(str(tmp_path / "pipeline"), tmp_path / "copy")
    made.close()
    assert made.path == kb_folder(tmp_path / "copy") == tmp_path / "copy" / "proxy_linker" / "kb"
    shutil.move(tmp_path / "copy", tmp_path / "moved")
    shutil.move(tmp_path / "pipeline", tmp_path / "gone")
    assert ids(tmp_path / "moved") == linked
    remove_entities(kb_folder(tmp_path / "moved"), [linked[0]])
    assert ids(tmp_path / "moved") != linked
    assert contents(own_kb) == before
    # A copy of a copy, whose KB is inside.
    copy_pipeline(str(tmp_path / "moved"), tmp_path / "again").close()
    assert ids(tmp_path / "again") == ids(tmp_path / "moved")


def test_refused(tiny_folder: Path, own_nlp: Language, own_kb: Path, tmp_path: Path) -> None:
    for given, out, said in (
        (tiny_folder, tmp_path, "exists"),
        (tmp_path, tmp_path / "new", "not a pipeline"),
        ("no_such_package", tmp_path / "new", "not a pipeline"),
    ):
        with pytest.raises(PelError, match=said):
            copy_pipeline(str(given), out)
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(PelError, match="has no knowledge base"):
        copy_pipeline(str(tmp_path / "blank"), tmp_path / "new")
    own_nlp.to_disk(tmp_path / "pipeline")
    with (own_kb / "kb.sqlite").open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(PelError):
        copy_pipeline(str(tmp_path / "pipeline"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
