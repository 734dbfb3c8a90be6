import json
import shutil
import sys
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.location import kb_folder, kb_to_change, pipeline_at


@pytest.fixture
def package(tiny_kb: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pipeline's folder in an installed package, "en_tiny_example", whose linker has the KB inside."""
    place = tmp_path / "site-packages" / "en_tiny_example"
    pipeline = place / "en_tiny_example-1.0"
    linker = pipeline / "proxy_linker"
    linker.mkdir(parents=True)
    (place / "__init__.py").touch()
    meta = {"lang": "en", "name": "tiny_example", "version": "1.0"}
    (place / "meta.json").write_text(json.dumps(meta))
    (linker / "kb.json").write_text('{"absolute": null, "relative": null, "configured": null}')
    shutil.copytree(tiny_kb, linker / "kb")
    monkeypatch.syspath_prepend(str(place.parent))
    return pipeline


def test_it_is_found(tiny_kb: Path, package: Path, tmp_path: Path) -> None:
    assert kb_folder(tiny_kb) == tiny_kb
    inside = package / "proxy_linker" / "kb"
    assert pipeline_at("en_tiny_example") == package
    assert kb_folder("en_tiny_example") == kb_folder(package) == inside
    assert "en_tiny_example" not in sys.modules  # a package's code takes seconds
    # Of several components the linker's counts; a KB is also found where it was.
    other = tmp_path / "pipeline" / "another"
    other.mkdir(parents=True)
    reference = {"absolute": str(tiny_kb), "relative": "../nowhere", "configured": None}
    (other / "kb.json").write_text(json.dumps(reference))
    assert kb_folder(tmp_path / "pipeline") == tiny_kb
    for nothing in ("no_such_package", tmp_path, "a/b.c"):
        assert kb_folder(nothing) == Path(nothing)


def test_an_installed_one_is_not_changed(tiny_kb: Path, package: Path) -> None:
    assert kb_to_change(tiny_kb) == tiny_kb
    for given in ("en_tiny_example", package, package / "proxy_linker" / "kb"):
        with pytest.raises(PelError, match=r"pel copy .* my_pipeline"):
            kb_to_change(given)
