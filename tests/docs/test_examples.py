"""Run the code blocks of the docs and check what README and docs refer to.

An HTML comment before a fence, ``<!-- needs: umls -->``, marks a block that needs more than the demo. Of
such blocks, only commands, options and imports are checked.
"""

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

from .reader import Notebook, Page, Reader, check_spacy, commands_of, spacy_arguments

ROOT = Path(__file__).parents[2]
README = Page(ROOT / "README.md")
QUICKSTART = Page(ROOT / "docs" / "index.md")
PAGES = [Page(path) for path in sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
# The encoder that the notebooks download. Tests use a tiny one.
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
LANGUAGES = {"bash", "python", "ini", "json", "text", "xml"}
# An installation, data, an encoder, hardware, or a package that is not a dependency.
NEEDS = {"install", "umls", "mondo", "releases", "medmentions", "zeshel", "encoder", "gpu"}
NEEDS |= {"package", "scispacy", "en_core_sci_sm", "assets", "snomed", "network", "ray"}
# The trained package comes with a clone, and not with a source distribution.
WHEELS = sorted((ROOT / "releases").glob("*.whl"))


def named(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


@pytest.fixture(scope="session")
def quickstart_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder ``project`` after the commands of the quickstart. Tests copy it."""
    folder = tmp_path_factory.mktemp("quickstart")
    made = shutil.ignore_patterns("kb", "training", "metrics", "output", "packages", "results")
    shutil.copytree(ROOT / "project", folder / "project", ignore=made)
    reader = Reader(folder)
    reader.read(QUICKSTART)
    return reader.folder


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", [p for p in PAGES if p.path != QUICKSTART.path], ids=named)
def test_a_page_runs_after_the_quickstart(
    page: Page, quickstart_folder: Path, tmp_path: Path
) -> None:
    Reader(shutil.copytree(quickstart_folder, tmp_path / "project")).read(page)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_holds_no_output(path: Path, tiny_folder: Path, tmp_path: Path) -> None:
    notebook = Notebook(path, {ENCODER: str(tiny_folder)})
    for cell in notebook.cells:
        assert cell["cell_type"] == "markdown" or not (cell["outputs"] or cell["execution_count"])
    Reader(tmp_path).read(notebook)


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
    # Probabilities differ by a hundredth between processors.
    said, expected = (re.sub(r"\d+%", "%", text) for text in (done.stdout, printed))
    assert expected in said and "D010300  Parkinson Disease" in said, done.stderr


@pytest.mark.parametrize("page", [README, Page(ROOT / "project" / "README.md"), *PAGES], ids=named)
def test_what_a_page_names_is_there(page: Page) -> None:
    needs = [block.needs for block in page.blocks if block.needs]
    marks = re.findall("^ *<!-- needs:", page.text, re.M)  # each stands right before a block
    assert len(needs) == len(marks) and set(needs) <= NEEDS
    for block in page.blocks:
        assert block.language in LANGUAGES, f"line {block.line}: give the fence a language"
        if block.language == "python":
            check_imports(block.code)
        elif block.language == "ini":
            Config().from_str(block.code, interpolate=False)
    bash = (block.code for block in page.blocks if block.language == "bash")
    for command in [*(c for code in bash for c in commands_of(code)), *page.codes]:
        words = command.replace("...", "").split()
        if words[:1] == ["kb"]:  # in a text, short for ``pel kb``
            check_spacy(["pel", *words])
        elif arguments := spacy_arguments(command):
            check_spacy(arguments)
    registered = {name for names in REGISTERED.values() for name in names}
    assert set(re.findall(r"spacy-pel\.\w+\.v\d+", page.text)) <= registered
    for target in page.links:
        if "://" not in target and not target.startswith("#"):
            assert (page.path.parent / target.partition("#")[0]).exists(), target


def check_imports(code: str) -> None:
    """Raise an error if the code does not compile or imports missing names of spacy_pel."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("spacy_pel"):
            found = importlib.import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(found, alias.name)]
            assert not missing, f"{node.module} has no {missing}"
