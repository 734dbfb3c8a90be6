"""MEDIC, CTD's vocabulary of diseases, as CTD publishes it: ``CTD_diseases.tsv``, plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import plain_id, united
from .entity_source import ReadOptions, Source, SourceFormat, or_gzipped
from .mesh_tree import BRANCHES, VOCABULARY

_NEEDED = {"DiseaseName", "DiseaseID", "AltDiseaseIDs", "Definition", "ParentIDs", "Synonyms"}
_ROOT = "MESH:C"  # the branch itself, above all diseases


def read_medic(path: Path, options: ReadOptions) -> Source:
    """The diseases of CTD, sorted by id. MEDIC joins diseases of MeSH with those of OMIM.

    Ids are those of MeSH and OMIM, without a prefix. A disease of OMIM with one id of MeSH among its
    alternatives gets that id, so that it joins MeSH's own record. Alternative ids of other
    vocabularies are cross-references. The type is the branch of MeSH, "Diseases". The source is MSH
    or OMIM, by the id that MEDIC gives.

    Raises:
        PelError: The line that names the columns is missing. Reading the entities raises it, with
            file and line, for a row that is not whole, and for what ``cleaned`` refuses.
    """
    for _, line in numbered_lines(path):
        columns = line.lstrip("# ").split("\t")
        if line.startswith("#") and set(columns) >= _NEEDED:
            return Source(united(_entities(path, columns)))
        if not line.startswith("#"):
            break
    problem = f"{path}: no comment names its columns"
    raise PelError(problem, "fetch CTD_diseases.tsv.gz from ctdbase.org again")


def _entities(path: Path, columns: list[str]) -> Iterator[Entity]:
    for number, line in numbered_lines(path):
        if line.startswith("#") or not line:
            continue
        place, cells = f"{path}, line {number}", line.split("\t")
        if len(cells) != len(columns):
            problem = f"{place}: {len(cells)} columns, where the comment names {len(columns)}"
            raise PelError(problem, "fetch the file again")
        row = {column: cell.strip() for column, cell in zip(columns, cells)}
        if row["DiseaseID"] != _ROOT:
            yield cleaned_at(place, _entity(row))


def _entity(row: dict[str, str]) -> Entity:
    given, others = row["DiseaseID"], _items(row["AltDiseaseIDs"])
    of_mesh = [id for id in others if id.startswith("MESH:")]
    id = of_mesh[0] if len(of_mesh) == 1 and not given.startswith("MESH:") else given
    # Corpora use ids of MeSH and OMIM.
    diseases = [id for id in (given, *others) if id.startswith(("MESH:", "OMIM:"))]
    return Entity(
        concept_id=_local_id(id),
        canonical_name=row["DiseaseName"],
        aliases=tuple(_items(row["Synonyms"])),
        types=(BRANCHES["C"],),
        definition=row["Definition"] or None,
        alt_ids=tuple(sorted({*map(_local_id, diseases)} - {_local_id(id)})),
        parents=tuple(_local_id(parent) for parent in _items(row["ParentIDs"]) if parent != _ROOT),
        xrefs=tuple(id for id in others if id not in diseases),
        sources=(VOCABULARY if given.startswith("MESH:") else "OMIM",),
    )


def _items(cell: str) -> list[str]:
    return [item.strip() for item in cell.split("|") if item.strip()]


def _local_id(id: str) -> str:
    return plain_id(id).removeprefix("OMIM:")


FORMAT = SourceFormat("medic", read_medic, or_gzipped("ctd_diseases.tsv"))
