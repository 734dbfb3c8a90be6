"""The borders between the rooms of the package, read from its files."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import spacy_pel

PACKAGE = Path(spacy_pel.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}

# For each room, or file, what it must not import, anywhere in it.
FORBIDDEN = {
    "models": ("spacy", "thinc", "spacy_transformers"),
    "kb": ("spacy", "thinc", "torch", "transformers"),
    "evaluation": ("spacy", "thinc", "torch"),
    "inputs.py": ("spacy", "thinc", "torch", "transformers"),
    "proxies.py": ("spacy", "thinc", "torch", "transformers"),
    "reranker.py": ("spacy", "torch", "transformers"),
    "linking.py": ("spacy", "torch", "transformers"),
    "documents": ("thinc", "torch", "transformers"),
    "errors.py": ("spacy", "thinc", "torch", "numpy"),
    "threads.py": ("spacy", "thinc", "torch", "numpy"),
}
# The rooms on the ground know nothing of each other, and nothing of what stands on them.
ON_THE_GROUND = {
    "models": {"models", "errors"},
    "kb": {"kb", "about", "duck", "errors", "lines", "threads"},
    "evaluation": {"evaluation", "errors"},
    "inputs.py": {"errors"},
    "about.py": set(),
    "files.py": {"errors"},
    "duck.py": set(),
    "errors.py": set(),
    "lines.py": {"errors"},
    "threads.py": set(),
}
ON_TOP = {"pipeline", "cli", "serve"}


def imported_modules(path: Path) -> Iterator[str]:
    """The full names that a file imports, at its top or within functions; not for hints alone."""
    package = ("spacy_pel", *path.relative_to(PACKAGE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf8"))
    for_hints = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    for node in ast.walk(tree):
        if node in for_hints:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def rooms_imported(path: Path) -> set[str]:
    """The rooms of our own package that a file imports from."""
    parts = [name.split(".") for name in imported_modules(path)]
    return {name[1] for name in parts if name[0] == "spacy_pel" and len(name) > 1} & ROOMS


def files_of(room: str) -> list[Path]:
    found = [path for path in FILES if path.relative_to(PACKAGE).parts[0] == room]
    assert found, f"there is no {room}"
    return found


def test_imports_are_read_rightly() -> None:
    assert set(imported_modules(PACKAGE / "kb" / "exact.py")) >= {"numpy", "faiss"}
    assert rooms_imported(PACKAGE / "retriever.py") == {"architectures", "inputs"}
    assert "kb" in rooms_imported(PACKAGE / "pipeline" / "kb_reference.py")


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_without_what_it_should_not_know(room: str) -> None:
    for path in files_of(room):
        imported = {name.partition(".")[0] for name in imported_modules(path)}
        assert not imported & set(FORBIDDEN[room]), path


@pytest.mark.parametrize("room", ON_THE_GROUND)
def test_rooms_on_the_ground_know_nothing_of_each_other(room: str) -> None:
    for path in files_of(room):
        assert rooms_imported(path) <= ON_THE_GROUND[room], path


def test_only_the_top_knows_the_top() -> None:
    for path in FILES:
        if path.relative_to(PACKAGE).parts[0] not in ON_TOP:
            assert not rooms_imported(path) & ON_TOP, path


def test_no_two_rooms_know_each_other_even_by_way_of_others() -> None:
    known: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        known[room] |= rooms_imported(path) - {room}
    TopologicalSorter(known).prepare()  # a CycleError names the circle


@pytest.mark.parametrize("module", ["pickle", "cloudpickle", "dill", "joblib", "shelve"])
def test_nothing_is_pickled(module: str) -> None:
    for path in FILES:
        assert module not in set(imported_modules(path)), path


@pytest.mark.parametrize("module", ["spacy_pel", "spacy_pel.kb", "spacy_pel.inputs"])
def test_an_import_is_light(module: str) -> None:
    script = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'faiss', 'transformers', 'spacy', 'thinc'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
