"""Write MeSH without the names and ids of MEDIC and OMIM: what a package may pass on."""

import shutil
from collections import Counter
from pathlib import Path

import typer
from sources.entity_files import write_entities
from sources.mesh_only import Names, Vocabularies, folded, mesh_only
from wasabi import msg

from spacy_pel.kb import open_source
from spacy_pel.system.lines import numbered_lines

MADE = "kb/mesh_only.jsonl.gz"  # by prepare.py, of MeSH's own files
JOINED = "kb/mesh.jsonl.gz"
MESH, MEDIC = "ontologies/mesh_ascii_d2014.bin.gz", "ontologies/medic_2012.txt.gz"


def main(data: Path, output: Path) -> None:
    """Write MeSH alone to OUTPUT (.jsonl.gz).

    If DATA has kb/mesh_only.jsonl.gz, which "prepare" makes of MeSH's own files, OUTPUT is a copy
    of it. Otherwise it is DATA/kb/mesh.jsonl.gz without the names and ids that MEDIC and OMIM added,
    as far as the older lists of both in DATA/ontologies tell.
    """
    if (data / MADE).is_file():
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(data / MADE, output)
        msg.good(f"{output}: a copy of {data / MADE}")
        return
    needed = [data / name for name in (JOINED, MESH, MEDIC)]
    missing = [str(path) for path in needed if not path.is_file()]
    if missing:
        msg.fail(
            f"Neither {data / MADE} nor {missing[0]}", "Run: python -m spacy project run prepare"
        )
        raise typer.Exit(1)
    joined, mesh, medic = needed
    left_out: Counter[str] = Counter()
    known = Vocabularies(_names_of_mesh(mesh), _names_of_medic(medic))
    holds = write_entities(output, mesh_only(open_source(joined).entities, known, left_out))
    msg.good(f"{output}: {holds}")
    msg.info("Left out: " + ", ".join(f"{n:,} {what}" for what, n in sorted(left_out.items())))


def _names_of_mesh(path: Path) -> Names:
    return {e.concept_id: frozenset(map(folded, e.names)) for e in open_source(path).entities}


def _names_of_medic(path: Path) -> Names:
    """The names in lines "id|alternative id||name|name..."."""
    rows = (line.split("|") for _, line in numbered_lines(path))
    return {id: frozenset(map(folded, filter(None, names))) for id, _, *names in rows}


if __name__ == "__main__":
    typer.run(main)
