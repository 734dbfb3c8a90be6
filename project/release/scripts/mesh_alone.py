"""Write MeSH without the names and ids of MEDIC and OMIM: what a package may pass on.

MEDIC, CTD's vocabulary of diseases, puts names of OMIM into the records of MeSH. Names of MeSH may
be passed on; names of MEDIC and OMIM may not.
"""

import gzip
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

import srsly
import typer
from prepare import write_entities
from selection import selected
from wasabi import msg

from spacy_pel.io.lines import numbered_lines
from spacy_pel.kb import Entity, open_source
from spacy_pel.kb.readers.mesh import MENTAL_DISORDERS, PARTS

MADE = "kb/mesh_only.jsonl.gz"  # by "prepare", of MeSH's own files
JOINED = "kb/mesh_today.jsonl.gz"
MESH, MEDIC = "ontologies/mesh_ascii_d2014.bin.gz", "ontologies/medic_2012.txt.gz"
# What follows the name of a drug in that of its salt. Newer descriptors have no other name than this.
_SALTS = frozenset(
    """acetate acetonide besylate bromide butyrate calcium chloride citrate dihydrochloride dimaleate
    dipropionate disodium esylate fumarate furoate gluconate hydrobromide hydrochloride lactate maleate
    malate mesylate napadisilate nitrate oxalate palmitate pamoate phosphate potassium propionate
    sodium succinate sulfate tartrate tosylate trihydrate valerate xinafoate""".split()
)
_MIN_LETTERS = 6  # letters of a name without its salt
_MESH_ID = re.compile(r"[CD]\d+").fullmatch
_NAME = re.compile(r"^(?:MH|ENTRY|PRINT ENTRY) = ([^|\n]*)", re.MULTILINE)

Names = Mapping[str, Set[str]]  # folded, by id


def main(data: Path, current_names: Path, new_entities: Path, output: Path) -> None:
    """Write the selected records of MeSH alone to OUTPUT, with CURRENT_NAMES and NEW_ENTITIES.

    They come from DATA/kb/mesh_only.jsonl.gz, which "prepare" makes of MeSH's own files. Without it, they
    come from DATA/kb/mesh_today.jsonl.gz, less the names and ids that MEDIC and OMIM added, as far as the
    older lists of both in DATA/ontologies tell.
    """
    left_out: Counter[str] = Counter()
    if (data / MADE).is_file():
        source = iter(open_source(data / MADE).entities)
    else:
        source = _without_medic(data, left_out)
    # Lines "id<TAB>canonical name<TAB>name<TAB>kind".
    rows = (line.split("\t") for _, line in numbered_lines(current_names))
    current: dict[str, list[str]] = defaultdict(list)
    for id, _, name, *_ in rows:
        current[id].append(name)
    entities = [
        entity._replace(aliases=(*entity.aliases, *current[entity.concept_id]))
        for entity in selected(source, current.keys(), left_out)
    ]
    entities += open_source(new_entities).entities
    entities = without_moved_names(entities, left_out)
    named = with_names_of_drugs(entities)
    write_entities(output, named)
    new = sum(len(a.aliases) - len(b.aliases) for a, b in zip(named, entities))
    msg.info(f"Names of drugs, from those of their salts: {new:,}")
    msg.info("Left out: " + ", ".join(f"{n:,} {what}" for what, n in sorted(left_out.items())))


def _without_medic(data: Path, left_out: Counter[str]) -> Iterator[Entity]:
    """Yield the entities of DATA/kb/mesh_today.jsonl.gz as MeSH's own files have them."""
    joined, mesh, medic = (data / name for name in (JOINED, MESH, MEDIC))
    for path in (joined, mesh, medic):
        if not path.is_file():
            remedy = "Run: python -m spacy project run prepare"
            msg.fail(f"Neither {data / MADE} nor {path}", remedy, exits=1)
    of_mesh = names_in_ascii(mesh)
    # Lines "id|alternative id||name|name...".
    rows = (line.split("|") for _, line in numbered_lines(medic))
    of_medic = {id: frozenset(map(folded, filter(None, names))) for id, _, *names in rows}
    records = {record["concept_id"]: record for record in srsly.read_gzip_jsonl(joined)}
    for entity in mesh_only(open_source(joined).entities, of_mesh, of_medic, left_out):
        mapped = records[entity.concept_id].get("mapped_to", ())
        numbers = [
            number
            for id in (entity.concept_id, *mapped)
            for number in records.get(id, {}).get("tree_numbers", ())
        ]
        types = [*entity.types, *(PARTS[code] for code in PARTS if _are_below(code, numbers))]
        if _are_below(MENTAL_DISORDERS, numbers):  # those of MEDIC have this type already
            types.insert(0, "Diseases")
        yield entity._replace(types=tuple(dict.fromkeys(types)), parents=tuple(mapped))


def _are_below(code: str, numbers: list[str]) -> bool:
    """Tell whether one of the tree numbers of a record is in a part of MeSH."""
    return any(number.startswith(code) for number in numbers)


def names_in_ascii(path: Path) -> dict[str, set[str]]:
    """Return the folded names of each descriptor in a file of MeSH in ASCII, by id."""
    with gzip.open(path, "rt", encoding="utf8") as file:
        records = file.read().split("*NEWRECORD")[1:]
    ids = (re.search(r"^UI = (\w+)", record, re.MULTILINE)[1] for record in records)
    return {id: set(map(folded, _NAME.findall(record))) for id, record in zip(ids, records)}


def without_moved_names(entities: list[Entity], left_out: Counter[str]) -> list[Entity]:
    """Return the entities without aliases that are the canonical name of another one.

    In MeSH a name belongs to one record. "Anosmia" was a name of "Olfaction Disorders" until it became a
    descriptor itself, and a list of several years still has both. ``left_out`` counts the names.
    """
    owners = {folded(entity.canonical_name): entity.concept_id for entity in entities}
    kept = []
    for entity in entities:
        aliases = tuple(
            name
            for name in entity.aliases
            if owners.get(folded(name), entity.concept_id) == entity.concept_id
        )
        left_out["names of other records"] += len(entity.aliases) - len(aliases)
        kept.append(entity._replace(aliases=aliases))
    return kept


def with_names_of_drugs(entities: list[Entity]) -> list[Entity]:
    """Return the entities, descriptors of salts of drugs with the name of the drug: "Quetiapine Fumarate".

    A name of another entity, or of two salts, is not added.
    """
    drugs = []
    for entity in entities:
        drug, _, salt = folded(entity.canonical_name).partition(" ")
        is_descriptor = entity.concept_id.startswith("D")
        is_told = is_descriptor and salt in _SALTS and drug.isalpha() and len(drug) >= _MIN_LETTERS
        drugs.append(drug if is_told else None)
    known = Counter(folded(name) for entity in entities for name in entity.names)
    known.update(filter(None, drugs))
    return [
        entity._replace(aliases=(*entity.aliases, drug)) if known[drug] == 1 else entity
        for entity, drug in zip(entities, drugs)
    ]


def folded(name: str) -> str:
    """Return a name without case and in American spelling, for comparisons."""
    name = " ".join(html.unescape(name).casefold().split())
    return name.replace("ae", "e").replace("oe", "e").replace("our", "or")


def mesh_only(
    entities: Iterable[Entity], mesh: Names, medic: Names, left_out: Counter[str]
) -> Iterator[Entity]:
    """Yield the entities of MeSH joined with MEDIC, with names and alternative ids of MeSH alone.

    ``mesh`` has the names of MeSH's descriptors, possibly of an older year, and ``medic`` those of MEDIC's
    diseases. ``left_out`` counts the removed entities, ids and names.
    """
    for entity in entities:
        name, *others = dict.fromkeys(map(html.unescape, entity.names))
        if not _MESH_ID(entity.concept_id):
            left_out.update(entities=1, names=1 + len(others))
            continue
        alt_ids = tuple(filter(_MESH_ID, entity.alt_ids))
        # MEDIC calls a record of MeSH by its name in MeSH: the canonical name always stays.
        aliases = tuple(other for other in others if _is_mesh_name(other, entity, mesh, medic))
        left_out.update(ids=len(entity.alt_ids) - len(alt_ids), names=len(others) - len(aliases))
        # "Disease" is the one type of MEDIC.
        types = ["Diseases" if type == "Disease" else type for type in entity.types]
        if entity.concept_id in medic:  # mental disorders are not in that branch of MeSH
            types = sorted({*types, "Diseases"})
        kept = {"canonical_name": name, "aliases": aliases, "alt_ids": alt_ids}
        yield entity._replace(**kept, types=tuple(types))


def _is_mesh_name(name: str, entity: Entity, mesh: Names, medic: Names) -> bool:
    """Tell whether a name of an entity is in MeSH, as far as the lists tell."""
    key, in_mesh = folded(name), mesh.get(entity.concept_id)
    if in_mesh is not None and key in in_mesh:
        return True
    ids = (entity.concept_id, *entity.alt_ids)
    if in_mesh is not None and any(key in medic.get(id, ()) for id in ids):
        return False
    # No list has all names of a supplementary record, or of a later year. What MEDIC adds there are
    # names of OMIM, to records with an id of OMIM. Most letters are capitals: "PARAPLEGIA Xq28".
    letters = [character for character in name if character.isalpha()]
    is_in_capitals = sum(map(str.isupper, letters)) > len(letters) / 2
    return all(map(_MESH_ID, entity.alt_ids)) or not is_in_capitals


if __name__ == "__main__":
    typer.run(main)
