"""Files that come with the package are found in a clone, and by name in a wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.packaging.shipped_files import config_file, shipped_folder, write_demo

ROOT = Path(__file__).parents[2]
# In a process of its own, of an unpacked wheel.
INSTALLED = """
from spacy_pel.packaging.shipped_files import config_file, shipped_folder
print(shipped_folder(), config_file("mesh_document"), sep="\\n")
"""


@pytest.mark.parametrize("given", ["mesh_document", "configs/mesh_document.cfg"])
def test_a_config_has_a_name(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file(given) == shipped_folder() / "configs" / "mesh_document.cfg"


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    own = Path("configs/demo.cfg")
    own.write_text("")
    assert config_file("configs/demo.cfg") == own
    assert config_file("demo") == shipped_folder() / own


@pytest.mark.parametrize("given", ["demos", "elsewhere/demo.cfg", "/configs/demo.cfg", ""])
def test_another_name_is_an_error(given: str) -> None:
    with pytest.raises(
        PelError, match="no such config; give .* one of align, arborescence, demo, "
    ):
        config_file(given)


def test_the_demo_is_copied(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    for name in ("configs/demo.cfg", "assets/demo/umls/MRCONSO.RRF", "assets/demo/texts.txt"):
        assert (tmp_path / "demo" / name).read_bytes() == (ROOT / "project" / name).read_bytes()
    with pytest.raises(PelError, match="something already; give a new folder"):
        write_demo(tmp_path / "demo")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    places = ["build", "--build-base", folder / "build", "egg_info", "--egg-base", folder]
    command = [sys.executable, "setup.py", "-q", *places, "bdist_wheel", "--dist-dir", folder]
    environment = {**os.environ, "REPOSITORY": "https://example.org/spacy_pel/"}
    subprocess.run([*map(str, command)], cwd=ROOT, env=environment, check=True)
    (packed,) = folder.glob("*.whl")
    zipfile.ZipFile(packed).extractall(folder / "site")
    return folder / "site"


def test_a_wheel_has_them(wheel: Path, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", INSTALLED],
        env={"PYTHONPATH": str(wheel), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = wheel / "spacy_pel" / "project"
    assert told.stdout.split() == [str(folder), str(folder / "configs" / "mesh_document.cfg")]
    assert (folder / "assets/demo/corpus/train.pubtator").is_file()


def test_the_readme_on_pypi_links_to_the_repository(wheel: Path) -> None:
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]*)\)", metadata.read_text(encoding="utf8"))
    assert "https://example.org/spacy_pel/raw/main/docs/images/page.png" in links
    assert all(link.startswith("https://") for link in links)
