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
from collections.abc import Iterator
from pathlib import Path

import pytest
from thinc.api import Config

from spacy_pel.registry import REGISTERED

from .commands import check_spacy, commands_of, spacy_arguments
from .markdown import Block, Page
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


def named(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


def with_line(case: tuple[Page, Block]) -> str:
    return f"{named(case[0])}:{case[1].line}"


BLOCKS = [(page, block) for page in ALL for block in page.blocks]


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


@pytest.mark.parametrize("case", BLOCKS, ids=with_line)
def test_a_block_is_run_or_says_what_it_needs(case: tuple[Page, Block]) -> None:
    _, block = case
    assert block.language in LANGUAGES, "give the fence a language"
    assert block.needs is None or block.needs in NEEDS
    if block.language == "bash":
        for command in commands_of(block.code):
            check_command(command)
    elif block.language == "python":
        check_imports(block.code)
    elif block.language == "ini":
        Config().from_str(block.code, interpolate=False)


@pytest.mark.skipif(not WHEELS, reason="no trained package in releases")
def test_the_package_prints_what_the_readme_says(tmp_path: Path) -> None:
    [wheel] = WHEELS
    assert all(wheel.name in b.code for b in README.blocks if b.code.startswith("pip install m"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, "--target", tmp_path, wheel], check=True)
    places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "HF_HUB_OFFLINE": "1"}
    code, printed = example_of_the_package(README)
    for command, expected in (
        (["-c", code], printed),
        ([ROOT / "project" / "scripts" / "first_links.py"], "D010300  Parkinson Disease"),
    ):
        done = subprocess.run(
            [sys.executable, *command], env=own, cwd=tmp_path, capture_output=True, text=True
        )
        assert expected in done.stdout, done.stderr


def example_of_the_package(page: Page) -> tuple[str, str]:
    """The Python of a page that needs the package, and the text behind it."""
    blocks = iter(page.blocks)
    code = next(b.code for b in blocks if (b.needs, b.language) == ("package", "python"))
    return code, next(blocks).code


@pytest.mark.parametrize("page", ALL, ids=named)
def test_a_mark_stands_before_a_block(page: Page) -> None:
    assert page.marks == [block.needs for block in page.blocks if block.needs]


@pytest.mark.parametrize("page", ALL, ids=named)
def test_commands_within_the_text_exist(page: Page) -> None:
    for code in page.codes:
        check_command(code.replace("...", ""))
        if code.startswith(("pel ", "kb ")):
            words = code.replace("...", "").split()
            check_spacy([*(["pel"] if words[0] == "kb" else []), *words], whole=False)


@pytest.mark.parametrize("page", ALL, ids=named)
def test_registered_names_exist(page: Page) -> None:
    named_there = re.findall(r"spacy-pel\.\w+\.v\d+", page.path.read_text(encoding="utf8"))
    registered = {name for names in REGISTERED.values() for name in names}
    assert set(named_there) <= registered


@pytest.mark.parametrize("page", ALL, ids=named)
def test_links_lead_somewhere(page: Page) -> None:
    for target in page.links:
        if "://" not in target and not target.startswith("#"):
            assert (page.path.parent / target.partition("#")[0]).exists(), target


def check_command(command: str) -> None:
    arguments = spacy_arguments(command)
    if arguments:
        check_spacy(arguments)


def check_imports(code: str) -> None:
    """Raises an error if the code does not compile, or what it imports of spacy_pel is not there."""
    for module, name in imports_of(ast.parse(code)):
        if module.partition(".")[0] == "spacy_pel":
            found = importlib.import_module(module)
            assert name is None or hasattr(found, name), f"{module} has no {name}"


def imports_of(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
