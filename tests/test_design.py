"""The borders between the rooms of the package, read from its files."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import spacy_pel

from .conftest import run_python

PACKAGE = Path(spacy_pel.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# Every room, or file that stands alone, from the ground up, and the rooms whose files it may
# import. A room with a longer path is a room inside a room. What is not listed is forbidden.
GROUND = {"about", "errors", "io"}
KB = {*GROUND, "kb", "kb.records", "kb.vectors"}
READS = {*GROUND, "kb", "kb.records", "text"}
LINKS = {*READS, "kb.vectors", "models", "models.architectures"}
TRAINS = {*LINKS, "linking"}
PIPELINE = {*TRAINS, "training", "coreference", "spans", "metrics", "registry"}
CURATION = {*PIPELINE, "pipeline", "corpora", "corpora.formats", "kb.readers"}
BATCH = {*CURATION, "curation"}
ANY = {*BATCH, "batch", "evaluation"}
# What its messages and options need, and the functions that are a command by themselves.
CLI = {*GROUND, "kb", "kb.readers", "corpora", "corpora.formats", "metrics", "training", "pipeline"}
ALLOWED = {
    "": {"about", "kb"},
    "about": set(),
    "errors": set(),
    "registry": set(),
    "io": {"errors"},
    "models": {"errors"},
    "metrics": {"errors"},
    "spans": {"errors"},
    "kb.records": GROUND,
    "kb.vectors": {*GROUND, "kb", "kb.records"},
    "kb": {*KB, "kb.readers"},
    "kb.readers": KB,
    "text": READS,
    "models.architectures": {*GROUND, "text", "models"},
    "linking": LINKS,
    "coreference": {"kb.vectors"},
    "training": TRAINS,
    "corpora.formats": {*GROUND, "kb.readers", "spans", "corpora"},
    "corpora": {*GROUND, "kb", "kb.records", "spans", "corpora.formats"},
    "pipeline": PIPELINE,
    "curation": CURATION,
    "batch": BATCH,
    "evaluation": {*BATCH, "batch"},
    "calibration": ANY,
    "package": {*ANY, "calibration"},
    "serve": {*GROUND, "spans", "kb", "corpora", "pipeline", "curation", "batch"},
    "cli": {*CLI, "curation", "batch", "evaluation", "calibration", "package", "serve"},
}
# What a room must not import of other packages, anywhere in it.
FORBIDDEN = {
    "kb": ("spacy", "thinc", "torch", "transformers"),
    "metrics": ("spacy", "thinc", "torch"),
    "text": ("spacy", "thinc", "torch", "transformers"),
    "linking": ("spacy", "torch", "transformers"),
    "coreference": ("spacy", "thinc", "torch", "transformers"),
    "corpora": ("thinc", "torch", "transformers"),
    "curation": ("typer", "wasabi", "tqdm"),
    "batch": ("typer", "wasabi", "tqdm"),
    "evaluation": ("typer", "wasabi", "tqdm"),
    "calibration": ("typer", "wasabi", "tqdm"),
    "package": ("typer", "wasabi", "tqdm"),
    "errors": ("spacy", "thinc", "torch", "numpy"),
    "io": ("spacy", "thinc", "torch", "numpy"),
}


def module_of(path: Path) -> str:
    """The full name of the module that a file holds; of a package for its __init__.py."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def room_of(module: str) -> str:
    """The innermost room of a module: the longest in ALLOWED that its name begins with."""
    name = module.removeprefix("spacy_pel").removeprefix(".")
    while name not in ALLOWED:
        name = name.rpartition(".")[0]
    return name


def imported_modules(path: Path, with_hints: bool = False) -> Iterator[str]:
    """The full names that a file imports, at its top or within functions.

    with_hints: also those under TYPE_CHECKING, which serve type hints alone.
    """
    package = ("spacy_pel", *path.relative_to(PACKAGE).parent.parts)
    tree = ast.parse(path.read_text(encoding="utf8"))
    for_hints = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
    }
    for node in ast.walk(tree):
        if node in for_hints and not with_hints:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


def own_modules_imported(path: Path, with_hints: bool = False) -> set[str]:
    """The modules of our own package that a file imports, itself left out."""
    own = {name for name in imported_modules(path, with_hints) if name in MODULES}
    # Of "from .room import module" both names are given; the room's own file is not what is meant.
    rooms = {name for name in own if any(other.startswith(f"{name}.") for other in own)}
    return own - rooms - {module_of(path)}


def rooms_imported(path: Path) -> set[str]:
    return {room_of(module) for module in own_modules_imported(path)}


def files_of(room: str) -> list[Path]:
    """The files of a room and of the rooms inside it."""
    name = f"spacy_pel.{room}"
    return [path for each, path in MODULES.items() if f"{each}.".startswith(f"{name}.")]


def test_imports_are_read_rightly() -> None:
    found = set(imported_modules(PACKAGE / "kb" / "vectors" / "index.py"))
    assert found >= {"pathlib", "faiss"}
    assert rooms_imported(PACKAGE / "package" / "diagnose.py") >= {"errors", "kb", "pipeline"}
    assert room_of("spacy_pel.kb.readers.mesh") == "kb.readers"


def test_every_file_stands_in_a_room() -> None:
    loose = (path.stem for path in PACKAGE.glob("*.py") if path.name != "__init__.py")
    assert set(loose) <= set(ALLOWED) and all(files_of(room) for room in ALLOWED if room)


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_without_what_it_should_not_know(room: str) -> None:
    for path in files_of(room):
        imported = {name.partition(".")[0] for name in imported_modules(path)}
        assert not imported & set(FORBIDDEN[room]), path


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_its_neighbours_and_what_is_below(room: str) -> None:
    for module, path in MODULES.items():
        if room_of(module) == room:
            assert rooms_imported(path) <= {*ALLOWED[room], room}, path


def test_no_room_and_no_file_leads_back_to_itself() -> None:
    arrows: dict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        top = room_of(module).partition(".")[0]
        arrows[top] |= {room.partition(".")[0] for room in rooms_imported(path)} - {top}
    of_files = {name: own_modules_imported(path, True) for name, path in MODULES.items()}
    for graph in (arrows, of_files):
        TopologicalSorter(graph).prepare()  # a CycleError names the circle


def test_only_the_door_of_kb_knows_what_writes_and_reads_it() -> None:
    for path in (PACKAGE / "kb").glob("*.py"):
        assert path.name == "__init__.py" or "kb.readers" not in rooms_imported(path), path


@pytest.mark.parametrize("room", ["curation", "batch", "evaluation", "calibration", "package"])
def test_what_commands_do_prints_nothing(room: str) -> None:
    for path in files_of(room):
        calls = [n for n in ast.walk(ast.parse(path.read_text("utf8"))) if isinstance(n, ast.Call)]
        assert "print" not in [ast.unparse(call.func) for call in calls], path


def test_torch_modules_know_neither_spacy_nor_thinc() -> None:
    for module, path in MODULES.items():
        if room_of(module) == "models":  # not the architectures, which wrap them
            imported = {name.partition(".")[0] for name in imported_modules(path)}
            assert not imported & {"spacy", "thinc", "spacy_transformers"}, path


def test_nothing_is_pickled() -> None:
    for path in FILES:
        pickles = {"pickle", "cloudpickle", "dill", "joblib", "shelve"}
        assert not pickles & set(imported_modules(path)), path


# A command imports what it does when it runs.
SHOW_HELP = """
from typer.testing import CliRunner
from spacy_pel.cli import pel
from tests.cli.test_main import COMMANDS

for words in COMMANDS:
    assert CliRunner().invoke(pel, [*words, "--help"]).exit_code == 0
"""
# The server says its address before what takes long.
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
def test_nothing_is_imported_that_takes_long(script: str) -> None:
    heavy = {"torch", "faiss", "transformers", "spacy", "thinc", "duckdb"}
    check = f"import sys\nheavy = {heavy} & set(sys.modules)\nassert not heavy, heavy"
    run_python(f"{script}\n{check}", cwd=Path(__file__).parents[1])


def test_a_clone_in_the_working_folder_does_not_hide_the_package(tmp_path: Path) -> None:
    """Python takes the folder of a clone for a package, unless it finds an installed one (setup.py)."""
    (tmp_path / "spacy_pel" / "models").mkdir(parents=True)
    run_python("import spacy_pel.models.losses", cwd=tmp_path)
