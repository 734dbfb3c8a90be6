"""What README and docs show runs as it is written, and what they point to is there.

A block that needs more than the demo has an HTML comment before its fence, ``<!-- needs: umls -->``,
and is then checked for its commands, options and imports alone.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from thinc.api import Config

from spacy_pel.registry import REGISTERED

from .pages import Notebook, Page, check_spacy, commands_of, spacy_arguments
from .reader import Reader

ROOT = Path(__file__).parents[2]
README = Page(ROOT / "README.md")
PAGES = [Page(path) for path in sorted((ROOT / "docs").rglob("*.md"))]
ALL = [README, Page(ROOT / "project" / "README.md"), *PAGES]
LANGUAGES = {"bash", "python", "ini", "json", "text", "xml"}
# What blocks may need: an installation, data, an encoder, hardware, a package that is no dependency.
NEEDS = {"install", "umls", "mondo", "releases", "medmentions", "zeshel", "encoder", "gpu"}
# The trained package comes with a clone, and not with a source distribution.
WHEELS = sorted((ROOT / "releases").glob("*.whl"))
NEEDS |= {"package", "scispacy", "en_core_sci_sm", "assets", "snomed", "network", "pandas", "ray"}


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# A notebook downloads this encoder. The tests have one of their own.
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def named(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


MODES = ["hurried", pytest.param("as written", marks=pytest.mark.slow)]


@pytest.fixture(scope="session", params=MODES)
def reader_of_readme(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Reader:
    """One who has followed the README, in a copy of the project; the folder is for reading."""
    folder = tmp_path_factory.mktemp("readme")
    made = shutil.ignore_patterns("kb", "training", "metrics", "output", "packages", "results")
    shutil.copytree(ROOT / "project", folder / "project", ignore=made)
    reader = Reader(folder, hurried=request.param == "hurried")
    reader.read(README)
    return reader


@pytest.mark.timeout(3600)
def test_the_readme_runs(reader_of_readme: Reader) -> None:
    assert (reader_of_readme.folder / "training/demo/model-best").is_dir()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_runs_after_the_readme(page: Page, reader_of_readme: Reader, tmp_path: Path) -> None:
    folder = shutil.copytree(reader_of_readme.folder, tmp_path / "project")
    Reader(folder, hurried=reader_of_readme.hurried).read(page)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_holds_no_output(path: Path, tiny_folder: Path, tmp_path: Path) -> None:
    notebook = Notebook(path, {ENCODER: str(tiny_folder)})
    for cell in notebook.cells:
        assert cell["cell_type"] == "markdown" or not (cell["outputs"] or cell["execution_count"])
    Reader(tmp_path, hurried=True).read(notebook)


@pytest.mark.skipif(not WHEELS, reason="no trained package in releases")
def test_the_package_prints_what_the_readme_says(tmp_path: Path) -> None:
    [wheel] = WHEELS
    assert any(f"pip install releases/{wheel.name}" in block.code for block in README.blocks)
    zipfile.ZipFile(wheel).extractall(tmp_path)  # what pip does, without its minute
    blocks = iter(README.blocks)
    code = next(b.code for b in blocks if (b.needs, b.language) == ("package", "python"))
    printed = next(blocks).code
    script = str(ROOT / "project" / "scripts" / "first_links.py")
    code += f"\nimport runpy\nrunpy.run_path({script!r}, run_name='__main__')\n"
    places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=own, cwd=tmp_path, capture_output=True, text=True)
    assert printed in done.stdout and "D010300  Parkinson Disease" in done.stdout, done.stderr


@pytest.mark.parametrize("page", ALL, ids=named)
def test_what_a_page_names_is_there(page: Page) -> None:
    assert page.marks == [block.needs for block in page.blocks if block.needs]
    assert set(page.marks) <= NEEDS
    for block in page.blocks:
        assert block.language in LANGUAGES, f"line {block.line}: give the fence a language"
        if block.language == "bash":
            for command in commands_of(block.code):
                check_command(command)
        elif block.language == "python":
            check_imports(block.code)
        elif block.language == "ini":
            Config().from_str(block.code, interpolate=False)
    for code in page.codes:
        check_command(code.replace("...", ""))
        if code.startswith(("pel ", "kb ")):
            words = code.replace("...", "").split()
            check_spacy([*(["pel"] if words[0] == "kb" else []), *words], whole=False)
    registered = {name for names in REGISTERED.values() for name in names}
    text = page.path.read_text(encoding="utf8")
    assert set(re.findall(r"spacy-pel\.\w+\.v\d+", text)) <= registered
    for target in page.links:
        if "://" not in target and not target.startswith("#"):
            assert (page.path.parent / target.partition("#")[0]).exists(), target


def check_command(command: str) -> None:
    arguments = spacy_arguments(command)
    if arguments:
        check_spacy(arguments)


def check_imports(code: str) -> None:
    """Raises an error if the code does not compile, or what it imports of spacy_pel is not there."""
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")]
        if isinstance(node, ast.Import):
            for name in names:
                if name.partition(".")[0] == "spacy_pel":
                    importlib.import_module(name)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("spacy_pel"):
            found = importlib.import_module(node.module)
            missing = [name for name in names if not hasattr(found, name)]
            assert not missing, f"{node.module} has no {missing}"
