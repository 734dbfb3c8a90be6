"""MEDIC, CTD's vocabulary of diseases, as CTD publishes it: ``CTD_diseases.tsv``, plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import plain_id, united
from .entity_source import ReadOptions, Source
from .mesh_tree import BRANCHES, VOCABULARY

_COLUMNS = (
    *("DiseaseName", "DiseaseID", "AltDiseaseIDs", "Definition"),
    *("ParentIDs", "Synonyms"),
)
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
    places = _places(path)
    return Source(united(_entities(path, places)))


def _places(path: Path) -> dict[str, int]:
    """The place of each column. A comment names the columns."""
    for _, line in numbered_lines(path):
        if not line.startswith("#"):
            break
        names = line.lstrip("# ").split("\t")
        if set(_COLUMNS) <= set(names):
            return {name: place for place, name in enumerate(names)}
    raise PelError(
        f"{path}: no comment names its columns", "fetch CTD_diseases.tsv.gz from ctdbase.org again"
    )


def _entities(path: Path, places: dict[str, int]) -> Iterator[Entity]:
    for number, line in numbered_lines(path):
        if line.startswith("#") or not line:
            continue
        place, cells = f"{path}, line {number}", line.split("\t")
        if len(cells) != len(places):
            raise PelError(
                f"{place}: {len(cells)} columns, where the comment names {len(places)}",
                "fetch the file again",
            )
        row = {name: cells[places[name]].strip() for name in _COLUMNS}
        if row["DiseaseID"] != _ROOT:
            yield cleaned_at(place, _entity(row))


def _entity(row: dict[str, str]) -> Entity:
    given = row["DiseaseID"]
    others = _items(row["AltDiseaseIDs"])
    of_mesh = [other for other in others if _is_mesh(other)]
    id = of_mesh[0] if len(of_mesh) == 1 and not _is_mesh(given) else given
    ids = {_local_id(other) for other in (given, *others) if _is_disease(other)} - {_local_id(id)}
    return Entity(
        concept_id=_local_id(id),
        canonical_name=row["DiseaseName"],
        aliases=tuple(_items(row["Synonyms"])),
        types=(BRANCHES["C"],),
        definition=row["Definition"] or None,
        alt_ids=tuple(sorted(ids)),
        parents=tuple(map(_local_id, filter(_ROOT.__ne__, _items(row["ParentIDs"])))),
        xrefs=tuple(other for other in others if not _is_disease(other)),
        sources=(VOCABULARY if _is_mesh(given) else "OMIM",),
    )


def _items(cell: str) -> list[str]:
    return [item.strip() for item in cell.split("|") if item.strip()]


def _is_mesh(id: str) -> bool:
    return id.startswith("MESH:")


def _is_disease(id: str) -> bool:
    """Whether an id is of MeSH or OMIM, whose ids corpora use."""
    return id.startswith(("MESH:", "OMIM:"))


def _local_id(id: str) -> str:
    return plain_id(id).removeprefix("OMIM:")
