import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.package.shipped_files import config_file, shipped_folder, write_demo

from ..conftest import run_python

ROOT = Path(__file__).parents[2]
# In a process of its own, of an unpacked wheel.
INSTALLED = """
from spacy_pel.package.shipped_files import config_file, shipped_folder
print(shipped_folder(), config_file("mesh_document"), sep="\\n")
"""


def test_a_config_has_a_path_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    configs = shipped_folder() / "configs"
    for given in ("mesh_document", "configs/mesh_document.cfg"):
        assert config_file(given) == configs / "mesh_document.cfg"
    own = Path("configs/demo.cfg")
    own.parent.mkdir()
    own.write_text("")  # a file comes before a name
    assert config_file("configs/demo.cfg") == own and config_file("demo") == configs / "demo.cfg"
    for given in ("demos", "elsewhere/demo.cfg", "/configs/demo.cfg", ""):
        with pytest.raises(PelError, match="no such config; give .* one of align, arborescence, "):
            config_file(given)


def test_the_demo_is_copied(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    for name in ("configs/demo.cfg", "assets/demo/umls/MRCONSO.RRF", "assets/demo/texts.txt"):
        assert (tmp_path / "demo" / name).read_bytes() == (ROOT / "project" / name).read_bytes()
    with pytest.raises(PelError, match="is not empty; give a new folder"):
        write_demo(tmp_path / "demo")


def test_a_wheel_has_them_and_links_to_the_repository(tmp_path: Path) -> None:
    places = ["build", "--build-base", tmp_path / "build", "egg_info", "--egg-base", tmp_path]
    command = [sys.executable, "setup.py", "-q", *places, "bdist_wheel", "--dist-dir", tmp_path]
    environment = {**os.environ, "REPOSITORY": "https://example.org/spacy_pel/"}
    subprocess.run([*map(str, command)], cwd=ROOT, env=environment, check=True)
    (packed,), wheel = tmp_path.glob("*.whl"), tmp_path / "site"
    zipfile.ZipFile(packed).extractall(wheel)
    told = run_python(INSTALLED, env={"PYTHONPATH": str(wheel), "PATH": ""}, cwd=tmp_path)
    folder = wheel / "spacy_pel" / "project"
    assert told.split() == [str(folder), str(folder / "configs" / "mesh_document.cfg")]
    assert (folder / "assets/demo/corpus/train.pubtator").is_file()
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]*)\)", metadata.read_text(encoding="utf8"))
    assert "https://example.org/spacy_pel/raw/main/docs/images/page.png" in links
    assert all(link.startswith("https://") for link in links)
