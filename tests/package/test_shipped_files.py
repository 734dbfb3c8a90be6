import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.package.shipped_files import write_demo

from ..conftest import run_python

ROOT = Path(__file__).parents[2]
# In a process of its own, of an unpacked wheel.
INSTALLED = """
from spacy_pel.package.shipped_files import shipped_folder
print(shipped_folder())
"""


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
    assert told.split() == [str(folder)] and (folder / "configs/mesh_document.cfg").is_file()
    assert (folder / "assets/demo/corpus/train.pubtator").is_file()
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    links = re.findall(r"\]\(([^)]*)\)", metadata.read_text(encoding="utf8"))
    assert "https://example.org/spacy_pel/raw/main/docs/images/page.png" in links
    assert all(link.startswith("https://") for link in links)
