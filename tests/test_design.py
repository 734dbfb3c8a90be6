"""The layers of the package: which sub-package may import which, read from the source files."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import spacy_pel

from .conftest import run_python

PACKAGE = Path(spacy_pel.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# Each sub-package or top-level module, from the bottom layer up, with those that it may import. All other
# imports are forbidden. A nested sub-package has an entry of its own.
BASE = {"about", "errors", "io"}
KB = {*BASE, "kb", "kb.records", "kb.vectors"}
READS = {*BASE, "kb", "kb.records", "text"}
LINKS = {*READS, "kb.vectors", "models", "models.architectures"}
TRAINS = {*LINKS, "linking"}
PIPELINE = {*TRAINS, "training", "coreference", "spans", "metrics", "registry"}
CURATION = {*PIPELINE, "pipeline", "corpora", "corpora.formats", "kb.readers"}
BATCH = {*CURATION, "curation"}
ANY = {*BATCH, "batch", "evaluation"}
# What options and messages need, and the functions that commands call directly.
CLI = {*BASE, "kb", "kb.readers", "corpora", "corpora.formats", "metrics", "training", "pipeline"}
ALLOWED = {
    "": {"about", "kb"},
    "about": set(),
    "errors": set(),
    "registry": set(),
    "io": {"errors"},
    "models": {"errors"},
    "metrics": {"errors"},
    "spans": {"errors"},
    "kb.records": BASE,
    "kb.vectors": {*BASE, "kb", "kb.records"},
    "kb": {*KB, "kb.readers"},
    "kb.readers": KB,
    "text": READS,
    "models.architectures": {*BASE, "text", "models"},
    "linking": LINKS,
    "coreference": {"kb.vectors"},
    "training": TRAINS,
    "corpora.formats": {*BASE, "kb.readers", "kb.records", "spans", "corpora"},
    "corpora": {*BASE, "kb", "kb.records", "spans", "corpora.formats"},
    "pipeline": PIPELINE,
    "curation": CURATION,
    "batch": BATCH,
    "evaluation": {*BATCH, "batch"},
    "calibration": ANY,
    "package": {*ANY, "calibration"},
    "serve": {*BASE, "spans", "kb", "corpora", "pipeline", "curation", "batch"},
    "cli": {*CLI, "curation", "batch", "evaluation", "calibration", "package", "serve"},
}
# Libraries that a sub-package must not import, not even within a function.
TERMINAL = ("typer", "wasabi", "tqdm")
FORBIDDEN = {
    "kb": ("spacy", "thinc", "torch", "transformers"),
    "metrics": ("spacy", "thinc", "torch"),
    "text": ("spacy", "thinc", "torch", "transformers"),
    "linking": ("spacy", "torch", "transformers"),
    "coreference": ("spacy", "thinc", "torch", "transformers"),
    "corpora": ("thinc", "torch", "transformers"),
    **dict.fromkeys(("curation", "batch", "evaluation", "calibration", "package"), TERMINAL),
    "errors": ("spacy", "thinc", "torch", "numpy"),
    "io": ("spacy", "thinc", "torch", "numpy"),
}


def module_of(path: Path) -> str:
    """Return the full name of the module in a file; for __init__.py, that of its package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def package_of(module: str) -> str:
    """Return the innermost sub-package of a module: the longest prefix of its name in ALLOWED."""
    name = module.removeprefix("spacy_pel").removeprefix(".")
    while name not in ALLOWED:
        name = name.rpartition(".")[0]
    return name


@cache
def imported_modules(path: Path, with_hints: bool = False) -> frozenset[str]:
    """Return the full names that a file imports, at its top or within functions.

    with_hints: Include the imports under TYPE_CHECKING.
    """
    package = ("spacy_pel", *path.relative_to(PACKAGE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf8"))
    for_hints = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for node in block.body
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in for_hints and not with_hints:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def own_modules_imported(path: Path, with_hints: bool = False) -> set[str]:
    """Return the modules of spacy_pel that a file imports, except itself."""
    modules = {name for name in imported_modules(path, with_hints) if name in MODULES}
    # "from .package import module" yields both names. The package's __init__.py is not meant.
    packages = {name for name in modules if any(m.startswith(f"{name}.") for m in modules)}
    return modules - packages - {module_of(path)}


def packages_imported(path: Path) -> set[str]:
    return {package_of(module) for module in own_modules_imported(path)}


def libraries_imported(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported_modules(path)}


def files_of(package: str) -> list[Path]:
    """Return the files of a sub-package and of those nested in it."""
    prefix = f"spacy_pel.{package}."
    return [path for module, path in MODULES.items() if f"{module}.".startswith(prefix)]


def test_the_imports_of_known_files() -> None:
    assert {"pathlib", "faiss"} <= libraries_imported(PACKAGE / "kb" / "vectors" / "index.py")
    assert packages_imported(PACKAGE / "package" / "diagnose.py") >= {"errors", "kb", "pipeline"}
    assert package_of("spacy_pel.kb.readers.mesh") == "kb.readers"


def test_every_file_belongs_to_a_listed_package() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py") if path.name != "__init__.py"}
    assert modules <= set(ALLOWED) and all(files_of(package) for package in ALLOWED if package)


@pytest.mark.parametrize("package", FORBIDDEN)
def test_forbidden_libraries(package: str) -> None:
    for path in files_of(package):
        assert not libraries_imported(path) & set(FORBIDDEN[package]), path


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_allowed_packages(package: str) -> None:
    for module, path in MODULES.items():
        if package_of(module) == package:
            assert packages_imported(path) <= {*ALLOWED[package], package}, path


def test_imports_have_no_cycles() -> None:
    of_packages: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        top = package_of(module).partition(".")[0]
        of_packages[top] |= {name.partition(".")[0] for name in packages_imported(path)} - {top}
    of_files = {name: own_modules_imported(path, True) for name, path in MODULES.items()}
    for graph in (of_packages, of_files):
        TopologicalSorter(graph).prepare()  # CycleError names the cycle


def test_within_kb_only_init_imports_the_readers() -> None:
    for path in (PACKAGE / "kb").glob("*.py"):
        assert path.name == "__init__.py" or "kb.readers" not in packages_imported(path), path


@pytest.mark.parametrize("package", ["curation", "batch", "evaluation", "calibration", "package"])
def test_only_commands_print(package: str) -> None:
    for path in files_of(package):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf8"))) if isinstance(n, ast.Call)]
        assert "print" not in [ast.unparse(call.func) for call in calls], path


def test_torch_modules_import_neither_spacy_nor_thinc() -> None:
    for module, path in MODULES.items():
        if package_of(module) == "models":  # models.architectures wraps them for thinc
            assert not libraries_imported(path) & {"spacy", "thinc", "spacy_transformers"}, path


def test_nothing_is_pickled() -> None:
    for path in FILES:
        pickles = {"pickle", "cloudpickle", "dill", "joblib", "shelve"}
        assert not pickles & imported_modules(path), path


# Showing help imports no heavy library.
SHOW_HELP = """
from typer.testing import CliRunner
from spacy_pel.cli import pel
from tests.cli.test_main import COMMANDS

for words in COMMANDS:
    assert CliRunner().invoke(pel, [*words, "--help"]).exit_code == 0
"""
# The server prints its address before it imports heavy libraries.
SERVE = """
from typer.testing import CliRunner
from spacy_pel.cli import pel, pipelines

said = []

def say(line):
    said.append(line)
    raise SystemExit

pipelines.say = say
CliRunner().invoke(pel, ["serve", "pipeline", "--port", "0"])
assert said[0].startswith("Starting at http://127.0.0.1:"), said
"""
LIGHT = ["import spacy_pel.kb", "import spacy_pel.text.mention_inputs", SHOW_HELP, SERVE]


@pytest.mark.parametrize("script", LIGHT)
def test_heavy_libraries_are_not_imported(script: str) -> None:
    heavy = {"torch", "faiss", "transformers", "spacy", "thinc", "duckdb"}
    check = f"import sys\nheavy = {heavy} & set(sys.modules)\nassert not heavy, heavy"
    run_python(f"{script}\n{check}", cwd=Path(__file__).parents[1])


def test_a_clone_in_the_working_folder_does_not_hide_the_package(tmp_path: Path) -> None:
    """Python takes the folder of a clone for a namespace package unless setup.py prevents it."""
    (tmp_path / "spacy_pel" / "models").mkdir(parents=True)
    run_python("import spacy_pel.errors", cwd=tmp_path)
