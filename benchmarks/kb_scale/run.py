"""Measure the KB at UMLS scale, and write the tables of README.md beside this file.

    python benchmarks/kb_scale/run.py SCRATCH DATA [--peer-python PYTHON] [--cuis N] [--only ...]

SCRATCH needs 25 GB for 3 million CUIs, and may be deleted afterwards. DATA is the folder that
``project/project.yml`` calls ``data``. PYTHON is one that has scispacy.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PEL = ("-m", "spacy", "pel")


def python(*arguments: object) -> str:
    """Run Python with these arguments; gives what it prints, or ends this program if it fails."""
    command = [sys.executable, *map(str, arguments)]
    print("+", *command[1:], flush=True)
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    print(run.stdout, flush=True)
    return run.stdout.strip()


def release(arguments: argparse.Namespace, cuis: int) -> Path:
    """The META folder of a synthetic release; it is written if it does not exist."""
    meta = arguments.scratch / f"release-{cuis}"
    if not meta.exists():
        python(HERE / "generate.py", meta, "--cuis", cuis)
    return meta


def built(arguments: argparse.Namespace, source: Path, name: str) -> Path:
    """The KB folder of a source; it is built if it does not exist."""
    folder = arguments.scratch / name
    if not folder.exists():
        python(*PEL, "kb", "build", source, folder)
    return folder


def build(arguments: argparse.Namespace) -> str:
    return python(HERE / "build.py", release(arguments, arguments.cuis))


def opening(arguments: argparse.Namespace) -> str:
    mesh = built(arguments, arguments.data / "kb" / "mesh.jsonl.gz", "mesh")
    third = built(arguments, release(arguments, arguments.cuis // 3), "third")
    peer = ("--peer-python", arguments.peer_python) if arguments.peer_python else ()
    return python(HERE / "opening.py", mesh, third, *peer)


TABLES = {"build": build, "opening": opening}


def fill(name: str, table: str) -> None:
    """Put a table between its marks in the README."""
    path = HERE / "README.md"
    mark = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", flags=re.DOTALL)
    text = path.read_text(encoding="utf8")
    path.write_text(mark.sub(lambda m: f"{m[1]}{table}\n{m[2]}", text), encoding="utf8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--peer-python")
    parser.add_argument("--cuis", type=int, default=3_000_000)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        fill(name, TABLES[name](arguments))


if __name__ == "__main__":
    main()
