"""Opening a KB: time and memory, compared with scispaCy's ``KnowledgeBase`` of the same entities.

    python benchmarks/kb_scale/opening.py KB... [--peer-python PYTHON]

Each KB folder is exported to scispaCy's JSONL in a temporary folder. Every figure comes from a
process of its own. ``--peer-python`` is a Python that has scispacy (it pins numpy below 2); without
it only this package is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from spacy_pel import KnowledgeBase

SCHEMA = ("concept_id", "canonical_name", "aliases", "types", "definition")

COMMON = """
import json, sys, time
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
def report(opened, looked_up):
    before = resident()
    start = time.perf_counter(); kb = opened(); seconds = time.perf_counter() - start
    after = resident()
    start = time.perf_counter(); name = looked_up(kb); lookup = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "resident": after, "added": after - before,
                      "lookup": lookup, "name": name, "then": resident()}))
"""
OURS = (
    COMMON
    + """
from spacy_pel import KnowledgeBase
report(lambda: KnowledgeBase.open(sys.argv[1]), lambda kb: kb[sys.argv[2]].canonical_name)
"""
)
PEER = (
    COMMON
    + """
from scispacy.linking_utils import KnowledgeBase
report(lambda: KnowledgeBase(sys.argv[1]),
       lambda kb: kb.cui_to_entity[sys.argv[2]].canonical_name)
"""
)


def exported(kb: KnowledgeBase, path: Path) -> str:
    """Write a KB as scispaCy's JSONL; gives the id of the entity in its middle."""
    middle = None
    with open(path, "w", encoding="utf8") as file:
        for number, entity in enumerate(kb):
            record = {field: getattr(entity, field) for field in SCHEMA}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            if number == len(kb) // 2:
                middle = entity.concept_id
    return middle


def measured(python: str, script: str, *arguments: str) -> dict:
    """Run the script in a new process; gives what it reports."""
    command = [python, "-c", script, *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{python}: {run.stderr.strip().splitlines()[-1]}")
    return json.loads(run.stdout.splitlines()[-1])


def row(kb: KnowledgeBase, who: str, figures: dict) -> str:
    return (
        f"| {kb.path.name} ({len(kb):,} entities) | {who} | {figures['seconds']:.4f} | "
        f"{figures['added']:,.0f} | {figures['resident']:,.0f} | {figures['lookup'] * 1000:.2f} | "
        f"{figures['then']:,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kb", nargs="+", help="KB folders")
    parser.add_argument("--peer-python", help="a Python that has scispacy")
    arguments = parser.parse_args()
    print(
        "| KB | opened by | seconds | MB added | MB resident | first look-up, ms | MB after it |\n"
        "|---|---|---:|---:|---:|---:|---:|"
    )
    for folder in arguments.kb:
        kb = KnowledgeBase.open(folder)
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "kb.jsonl"
            middle = exported(kb, path)
            ours = measured(sys.executable, OURS, str(kb.path), middle)
            print(row(kb, "spacy_pel", ours), flush=True)
            if arguments.peer_python:
                peer = measured(arguments.peer_python, PEER, str(path), middle)
                print(row(kb, "scispaCy", peer), flush=True)
                if peer["name"] != ours["name"]:
                    sys.exit(f"{middle}: {ours['name']!r} here, {peer['name']!r} in scispaCy")


if __name__ == "__main__":
    main()
