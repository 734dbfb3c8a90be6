"""The trained package in several Pythons, with numpy 1 and 2, and beside scispaCy: a table.

    python benchmarks/pythons.py WHEEL FOLDER PYTHON... [--uv uv]

Makes an environment in FOLDER for each PYTHON and each numpy that has wheels for it. It installs this
package, the WHEEL and, with numpy 1, scispaCy. Then it links the same texts in each, without a network.
The ids must be the same in all; probabilities may differ in their last digits.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import typer

from spacy_pel.evaluation.markdown_table import markdown_table

ROOT = Path(__file__).parents[1]
NUMPY = ("numpy==1.26.4", "numpy>=2")
SCISPACY = "scispacy==0.6.2"
LINK = """
import json, socket, sys

def refused(*_, **__):
    raise OSError("no network here")

socket.socket.connect = socket.getaddrinfo = refused
import numpy, spacy

try:
    import scispacy.linking
    beside = "scispaCy"
except ImportError:
    beside = ""
nlp = spacy.load("en_pel_mesh_sm")
ids = [[[e.text, e.kb_id_] for e in d.ents] for d in nlp.pipe(json.load(open(sys.argv[1])))]
print(json.dumps([numpy.__version__, spacy.__version__, beside, ids]))
"""

EXAMPLES = [
    "Naloxone reverses the antihypertensive effect of clonidine.",
    "Patients with rheumatoid arthritis (RA) took methotrexate; RA improved.",
    "She developed Parkinson's disease, and levodopa relieved her tremor.",
]


def main(wheel: Path, folder: Path, python: list[Path], uv: str = "uv") -> None:
    """Print which environments could be made, and how many mentions have the same ids in each."""
    lines = (ROOT / "project" / "assets" / "demo" / "texts.txt").read_text("utf8").splitlines()
    folder, wheel = folder.absolute(), wheel.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    texts = folder / "texts.json"
    texts.write_text(json.dumps([*lines, *EXAMPLES]))
    rows, first = [], None
    for each in python:
        for numpy in NUMPY:
            own = folder / f"{each.parents[1].name}-{numpy[7]}"
            try:
                installed(uv, each, numpy, wheel, own)
                answer = run([own / "bin" / "python", "-c", LINK, texts])
            except subprocess.CalledProcessError as error:
                rows.append([own.name, "", "", "", "cannot be installed: " + reason(error)])
                continue
            *versions, ids = json.loads(answer.splitlines()[-1])
            first = ids if first is None else first
            mentions = sum(map(len, ids))
            same = "the same ids" if ids == first else "OTHER ids"
            rows.append([own.name, *versions, f"{mentions} mentions, {same}"])
    print(markdown_table(["", "numpy", "spaCy", "beside", ""], rows))


def reason(error: subprocess.CalledProcessError) -> str:
    """The line of a failed command that says why."""
    lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
    return next((line for line in lines if "no wheels" in line), lines[-1])[:120]


def installed(uv: str, python: Path, numpy: str, wheel: Path, folder: Path) -> None:
    """Make an environment, unless it is there."""
    if not (folder / "bin" / "python").exists():
        run([uv, "venv", "--python", python, folder])
    beside = [SCISPACY] if numpy == NUMPY[0] else []
    install = [uv, "pip", "install", "--python", folder / "bin" / "python"]
    # Not by resolving: a package built for one numpy must not choose the other.
    run([*install, "--only-binary", "numpy,scipy", numpy, f"{ROOT}[cpu]", *beside])
    run([*install, "--no-deps", "--reinstall", wheel])


def run(command: list) -> str:
    """What a command prints."""
    words = [str(word) for word in command]
    # Of the checkout that this runs in, the environments are to see nothing.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=own, cwd="/")
    return done.stdout


if __name__ == "__main__":
    typer.run(main)
